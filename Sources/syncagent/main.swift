import SyncCommands

await runSyncagent()
