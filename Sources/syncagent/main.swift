import SyncCommands

await SyncagentCommand.main()
