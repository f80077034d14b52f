import SyncCommands

runSyncagent()
