import SyncAssembly
import SyncModel
import SyncPlugins
import SyncTransfer
import Testing

@Suite("Plugins in a configuration file", .timeLimit(.minutes(10)))
struct PluginSettingsTests {
    @Test("Every key reaches the settings")
    func everyKey() throws {
        let plugins = try parse(
            """
            { plugins: {
                directory: "plugins",
                use: [
                  { plugin: "presign", point: "resolver", for: ["https://a.example/"], timeout: "5s",
                    settings: { key: "k", list: [1, 2.5, true, null], text: 'a"b' } },
                  { plugin: "/opt/syncagent-plugin-png", point: "verifier", include: ["**/*.png"] },
                  { plugin: "chat", point: "observer", events: ["pull.finished"] },
                  { plugin: "vpn", point: "condition" },
                ],
            } }
            """
        ).plugins
        #expect(plugins.directory == "/etc/x/plugins")
        #expect(plugins.uses.map(\.point) == [.resolver, .verifier, .observer, .condition])
        #expect(plugins.uses.map(\.name) == ["presign", "png", "chat", "vpn"])
        let scope = try URLScope.prefixes(["https://a.example/"])
        #expect(plugins.uses[0].scope == scope && plugins.uses[0].timeout == 5)
        #expect(plugins.uses[0].settings == "{\"key\":\"k\",\"list\":[1,2.5,true,null],\"text\":\"a\\\"b\"}")
        #expect(plugins.uses[1].include == ["**/*.png"] && plugins.uses[1].settings == "{}")
        #expect(plugins.uses(of: .observer).first?.events == ["pull.finished"])
    }

    @Test(
        "What is wrong is named with its line [V55 V62]",
        arguments: [
            ("{ point: 'resolver' }", "plugins.use[0].plugin: missing"),
            ("{ plugin: 'a' }", "plugins.use[0].point: missing; one of transport, resolver"),
            ("{ plugin: './a', point: 'resolver' }", "neither a name nor an absolute path"),
            ("{ plugin: '../a', point: 'resolver' }", "neither a name nor an absolute path"),
            ("{ plugin: 'a', point: 'resolvr' }", "is expected"),
            ("{ plugin: 'a', point: 'resolver', include: ['x'] }", "include: has no meaning for a resolver"),
            ("{ plugin: 'a', point: 'verifier', for: ['x'] }", "for: has no meaning for a verifier"),
            ("{ plugin: 'a', point: 'hook', events: ['x'] }", "events: has no meaning for a hook"),
            (
                "{ plugin: 'a', point: 'observer', events: ['pull.finished', 'hook.finish'] }",
                "events[1]: there is no event 'hook.finish'; did you mean “hook.finished”?"
            ),
            ("{ plugin: 'a', point: 'transport' }", "plugins.use[0].for: missing"),
            ("{ plugin: 'a', point: 'source' }", "plugins.use[0].for: missing; a source needs the URLs"),
            ("{ plugin: 'a', point: 'source', for: ['FILE:'] }", "plugins.use[0].for: file: URLs are not for plugins"),
            ("{ plugin: 'a', point: 'source', for: ['a:'], include: ['x'] }", "include: has no meaning for a source"),
            (
                "{ plugin: 'a', point: 'transport', for: ['File:'] }",
                "plugins.use[0].for: file: URLs are not for plugins"
            ),
            (
                "{ plugin: 'a', point: 'transport', for: ['store:', 'file:///srv/'] }",
                "plugins.use[0].for: file: URLs are not for plugins"
            ),
            (
                "{ plugin: 'a', point: 'resolver', for: ['a.example'] }",
                "for[0]: a.example is not the beginning of a URL"
            ), ("{ plugin: 'a', point: 'transport', for: ['ftp:/a/'] }", "for[0]: ftp:/a/ is not the beginning"),
            (
                "{ plugin: 'a', point: 'credential', for: ['https://a.example', 'https://a.example/x/'] }",
                "for[1]: https://a.example/x/ is not an origin; write https://host"
            ),
            (
                "{ plugin: 'a', point: 'credential', for: ['https://u:canary@a/'] }",
                "for[0]: https://a/ is not an origin"
            ), ("{ plugin: 'a', point: 'credential', for: [''] }", "for[0]: an empty string was found"),
            ("{ plugin: 'a', point: 'hook', settings: [] }", "settings: an object"),
            ("{ plugin: 'a', point: 'hook', settings: { a: Infinity } }", "JSON values"),
            ("{ plugin: 'a', point: 'hook', setting: {} }", "did you mean “settings”?"),
            ("[]", "an object { … } is expected"),
        ]) func refused(use: String, complaint: String) throws
    {
        let error = #expect(throws: SettingsError.self) { try parse("{ plugins: { use: [\n\(use)\n] } }") }
        let text = try #require(error?.description)
        #expect(text.hasPrefix("c.json:2: plugins.use[0]") && text.contains(complaint), "\(text)")
    }

    @Test("Hooks may be programs, webhooks and plugins; nothing else")
    func hookPrograms() throws {
        let words = ["/opt/a", "https://chat.example/x", "HTTP://10.0.0.1/", "plugin:reindex"]
        for word in words {
            #expect(try parse("{ hooks: { a: { program: '\(word)' } } }").hooks["a"]?.arguments.first == word)
        }
        for word in ["a", "./a", "plugin:", "ftp://a", "http://", "https://u:p@chat.example/", ""] {
            #expect(throws: SettingsError.self) { try parse("{ hooks: { a: { program: '\(word)' } } }") }
        }
    }
}
