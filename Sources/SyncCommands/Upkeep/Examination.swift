import Foundation
import SyncAgent
import SyncContent
import SyncModel
import SyncReport
import SyncSchedule
import SyncStore
import SyncSystem

/// The examinations of `syncagent doctor`. Nothing is changed.
extension Findings {
    /// Examines the state directory and the store; returns the store if it can be read.
    mutating func examineState(_ access: StateAccess) -> SyncStore? {
        let directory = access.place.stateDirectory
        let found = status(following: directory)
        // A missing one is created below the nearest directory above it.
        var place = directory
        while found == nil, place != "/", !exists(place) { place = parent(of: place) }
        if let found, found.user != CurrentProcess.user {
            problem("state", "\(escaped(directory)) belongs to another user", "use another directory: XDG_STATE_HOME")
        } else if let found, found.permissions & 0o077 != 0 {
            problem("state", "\(escaped(directory)) is accessible to other users", "chmod 700 \(escaped(directory))")
        } else if !isPermitted(.change, place) {
            let reason = Errno.last
            problem(
                "state", "\(escaped(place)) cannot be written to, so no pull can begin: \(reason)",
                "give this user write permission, mount it writable, or use another directory: XDG_STATE_HOME")
        }
        guard found != nil else {
            note("state", "there is none yet in \(escaped(directory))")
            return nil
        }
        do {
            guard let store = try access.existingStore() else { return nil }
            if case .rebuilt(let path) = store.opening {
                problem(
                    "state", "it was damaged and has been set aside as \(escaped(path))",
                    "pull again; files are verified, and none is fetched twice")
            }
            for what in try store.findings() {
                problem(
                    "state", what,
                    "please report this; removing syncagent.sqlite loses no files, but all are verified again")
            }
            return store
        } catch {
            problem("state", CommandFailure(error)?.message ?? "\(error)", "see above")
            return nil
        }
    }

    /// Examines whether an agent runs, answers, and has this version.
    mutating func examineAgent(_ access: StateAccess) async {
        let place = access.place
        if place.socketPath.utf8.count > UnixAddress.longestPath {
            problem(
                "agent",
                "the socket's path is longer than \(UnixAddress.longestPath) bytes: \(escaped(place.socketPath))",
                "set XDG_RUNTIME_DIR or XDG_STATE_HOME to a shorter path")
        }
        let isHeld = place.isLocked
        do {
            let status = try await access.sayingWhatKeeps { try await access.client.status() }
            note("agent", "process \(status.process), version \(escaped(status.version)), \(status.state)")
            if status.version != syncagentVersion {
                problem(
                    "agent",
                    "the agent has version \(escaped(status.version)), this program has version \(syncagentVersion)",
                    "'syncagent agent run --replace' takes over, or restart its service")
            }
        } catch let error as ControlError where error.code == .refused {
            problem("agent", error.message, "no command works with it")
        } catch {
            guard isHeld else {
                if case .success(_?) = status(currentDirectory, place.socketPath),
                    specialKind(place.socketPath) != "socket"
                {
                    return problem(
                        "agent", "none can start: \(escaped(place.socketPath)) is in the way, and is not a socket",
                        "move it elsewhere")
                }
                return note("agent", "none is running; commands start one when needed")
            }
            problem(
                "agent", "a process has its lock, but does not answer on \(escaped(place.socketPath))",
                "see \(escaped(place.stateDirectory))/agent.log; stop the process whose ID is in agent.lock")
        }
    }

    /// Examines this machine: libraries, space, file systems.
    mutating func examineMachine(_ access: StateAccess) {
        let curl = Libcurl.versions
        note(
            "machine",
            "syncagent \(syncagentVersion), libcurl \(curl.libcurl) with \(curl.tls), \(opensslVersion()), "
                + "zstd \(zstdVersion()), SQLite \(SyncStore.sqliteVersion)")
        disk(of: access.place.stateDirectory, "state")
    }

    /// Examines the free space and the kind of a file system.
    mutating func disk(of path: String, _ subject: String) {
        if let space = FileSystemSpace(at: path) {
            if space.bytes < 64 << 20 {
                problem(
                    subject, "only \(ByteCount(space.bytes)) is free in \(escaped(path))",
                    "make room; runs stop before the disk is full")
            }
            if let inodes = space.inodes, inodes < 1_000 {
                problem(
                    subject, "only \(inodes) inodes are free in \(escaped(path))",
                    "remove small files, or use another file system")
            }
        }
        // These keep synced data in memory, or in a layer that is removed with its container.
        let volatile: [UInt32: String] = [0x0102_1994: "tmpfs", 0x8584_58F6: "ramfs", 0x794C_7630: "overlayfs"]
        if let name = volatile[fileSystemType(path)] {
            note(subject, "\(escaped(path)) is on \(name): it does not outlive a reboot or a container")
        }
    }

    /// Examines whether every schedule can be read, is in effect, and can be started.
    mutating func examineSchedules(_ access: StateAccess) {
        // Without a home directory there are no schedules.
        guard let records = try? ScheduleRecords() else { return }
        let machine = MachineFacts(access)
        let names: [String]
        do throws(ScheduleError) { names = try records.names() } catch {
            return problem("schedules", error.description, "check the permissions of that directory")
        }
        for name in names {
            let subject = "schedule \(name)"
            do throws(ScheduleError) {
                guard let record = try records.find(name), !record.definition.isPaused else { continue }
                load(record, access)
                if let failure = record.memory.failure {
                    let cause = record.memory.cause ?? .other
                    problem(subject, "it could not start: \(escaped(failure))", cause.advice(on: failure))
                }
                guard record.backend.isInEffect(name) else {
                    problem(
                        subject, "it is not set up with \(record.backend.name)",
                        "'syncagent schedule add' it again, or remove it")
                    continue
                }
                if let concern = record.backend.concern(machine) {
                    problem(subject, concern.problem, concern.remedy)
                }
            } catch { problem(subject, error.description, "see above") }
        }
    }
}
