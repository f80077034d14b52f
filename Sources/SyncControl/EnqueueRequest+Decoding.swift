import SyncModel

extension EnqueueRequest: ControlRequest {
    enum CodingKeys: String, CodingKey {
        case manifest, destination, session, groups, hooks, connections, limitRate, prune, force, allowOlder
        case maxDelete, backupDir, notBefore
        case deadlineSeconds, paused, origin, originRun, settings, label, conditions
        case userData, expectedBytes
    }

    package static let keys = ControlKeys(
        [
            "manifest", "destination", "session", "groups", "connections", "limit_rate", "prune", "force",
            "allow_older", "max_delete", "backup_dir", "not_before", "deadline_seconds", "paused", "origin",
            "origin_run",
            "settings", "label", "user_data", "expected_bytes",
        ],
        nested: [
            "hooks": ControlKeys(["group", "arguments", "timeout", "results", "batch"]),
            "conditions": conditionKeys,
        ]
    )

    private static let windowKeys = ControlKeys(["start_minute", "length_minutes", "time_zone"])
    private static let conditionKeys = ControlKeys(
        ["power", "metered_budget", "maximum_load", "idle_seconds", "free_space", "plugins"],
        nested: ["window": windowKeys, "rates": ControlKeys(["limit"], nested: ["window": windowKeys])]
    )

    /// Reads a request; only `manifest` and `destination` must be there.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            manifest: try values.decode(String.self, forKey: .manifest),
            destination: try values.decode(String.self, forKey: .destination)
        )
        session = try values.decodeIfPresent(String.self, forKey: .session)
        groups = try values.decodeIfPresent([String].self, forKey: .groups) ?? groups
        hooks = try values.decodeIfPresent([Hook].self, forKey: .hooks) ?? hooks
        connections = try values.decodeIfPresent(Int.self, forKey: .connections)
        limitRate = try values.decodeIfPresent(UInt64.self, forKey: .limitRate)
        prune = try values.decodeIfPresent(Bool.self, forKey: .prune) ?? prune
        force = try values.decodeIfPresent(Bool.self, forKey: .force) ?? force
        maxDelete = try values.decodeIfPresent(Int.self, forKey: .maxDelete)
        backupDir = try values.decodeIfPresent(String.self, forKey: .backupDir)
        allowOlder = try values.decodeIfPresent(Bool.self, forKey: .allowOlder)
        notBefore = try values.decodeIfPresent(WallTime.self, forKey: .notBefore)
        deadlineSeconds = try values.decodeIfPresent(Int64.self, forKey: .deadlineSeconds)
        paused = try values.decodeIfPresent(Bool.self, forKey: .paused) ?? paused
        origin = try values.decodeIfPresent(Origin.self, forKey: .origin) ?? origin
        originRun = try values.decodeIfPresent(String.self, forKey: .originRun)
        settings = try values.decodeIfPresent(String.self, forKey: .settings)
        label = try values.decodeIfPresent(String.self, forKey: .label)
        // A null is a value like any other, and says the same as nothing.
        userData = try values.decodeIfPresent(JSONValue.self, forKey: .userData)
        expectedBytes = try values.decodeIfPresent(UInt64.self, forKey: .expectedBytes)
        conditions = try values.decodeIfPresent(RunConditions.self, forKey: .conditions) ?? conditions
    }
}

extension EnqueueRequest.Hook {
    enum CodingKeys: String, CodingKey {
        case group, arguments, timeout, results, batch
    }

    /// Reads a hook; only `arguments` must be there.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        self.init(arguments: try values.decode([String].self, forKey: .arguments))
        group = try values.decodeIfPresent(String.self, forKey: .group) ?? group
        timeout = try values.decodeIfPresent(Int.self, forKey: .timeout) ?? timeout
        results = try values.decodeIfPresent([RunResult].self, forKey: .results) ?? results
        batch = try values.decodeIfPresent(Int.self, forKey: .batch)
    }
}
