import SyncSystem

/// A D-Bus of a test's own, with a NetworkManager and a logind on it that say what the test has written.
///
/// The daemon is the real one; the services are Python programs over the real libdbus.
public final class FakeBus: Sendable {
    /// As in `DBUS_SYSTEM_BUS_ADDRESS`.
    public let address: String
    private let root: TemporaryRoot
    private let daemon: ChildProgram
    private let services: ChildProgram?

    /// Debian's own Python: its modules for D-Bus come from packages.
    private static let python = "/usr/bin/python3"

    /// What is missing to have one, for the line that says a test was skipped; `nil` when nothing is.
    public static let missing: String? = {
        if ChildProgram.find("dbus-daemon") == nil { return "SKIPPED: no dbus-daemon; apt-get install dbus" }
        if ChildProgram.find("busctl") == nil { return "SKIPPED: no busctl; apt-get install systemd" }
        let modules = try? ChildProgram(python, ["-c", "import dbus.service, gi.repository.GLib"]).wait()
        return modules == 0 ? nil : "SKIPPED: no D-Bus for Python; apt-get install python3-dbus python3-gi"
    }()

    /// Starts it.
    ///
    /// - Parameter hasServices: Without them the bus runs, and nobody is on it.
    public init(hasServices: Bool = true) throws(TestKitError) {
        root = try TemporaryRoot()
        address = "unix:path=\(root.path("bus"))"
        try root.write(Self.configuration(address), to: "bus.conf")
        let program = ChildProgram.find("dbus-daemon") ?? ""
        daemon = try ChildProgram(
            program, ["--nofork", "--print-address", "--config-file=\(root.path("bus.conf"))"],
            output: root.path("daemon.log"))
        try Self.wait(for: "unix:path=", from: daemon)
        guard hasServices else {
            services = nil
            return
        }
        try root.write(Self.program, to: "services.py")
        services = try ChildProgram(
            Self.python, [root.path("services.py"), address, root.path], output: root.path("services.log"))
        for (name, value) in ["Metered": "4", "IdleHint": "false", "IdleSinceHint": "0"] { try set(name, value) }
        if let services { try Self.wait(for: "ready", from: services) }
    }

    /// What a property has from now on; `hang` for no answer ever, `text` for one of the wrong type.
    public func set(_ property: String, _ value: String) throws(TestKitError) { try root.write(value, to: property) }

    private static func wait(for word: String, from program: ChildProgram) throws(TestKitError) {
        while program.isRunning {
            if program.output.contains(word) { return }
            pauseThread(milliseconds: 10)
        }
        throw TestKitError("it ended: \(program.output)")
    }

    private static func configuration(_ address: String) -> String {
        """
        <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
         "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
        <busconfig>
          <type>system</type><listen>\(address)</listen><auth>EXTERNAL</auth>
          <policy context="default"><allow eavesdrop="true"/><allow own="*"/><allow send_destination="*"/>
          <allow send_type="method_return"/><allow send_type="error"/><allow receive_sender="*"/></policy>
        </busconfig>
        """
    }

    private static let program = """
        import sys, dbus, dbus.bus, dbus.service, dbus.mainloop.glib
        from gi.repository import GLib
        dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
        address, root = sys.argv[1:]
        types = {'Metered': dbus.UInt32, 'IdleSinceHint': dbus.UInt64, 'IdleHint': lambda text: dbus.Boolean(text == 'true')}
        class Properties(dbus.service.Object):
            @dbus.service.method('org.freedesktop.DBus.Properties', in_signature='ss', out_signature='v',
                                 async_callbacks=('answer', 'fail'))
            def Get(self, interface, name, answer, fail):
                text = open(root + '/' + name).read()
                if text == 'text': answer('four')
                elif text != 'hang': answer(types[name](text))
        kept = []
        for name in ['NetworkManager', 'login1']:
            bus = dbus.bus.BusConnection(address)
            kept.append(dbus.service.BusName('org.freedesktop.' + name, bus))
            kept.append(Properties(bus, '/org/freedesktop/' + name))
        print('ready', flush=True)
        GLib.MainLoop().run()
        """
}
