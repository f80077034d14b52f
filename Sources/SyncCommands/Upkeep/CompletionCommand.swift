import ArgumentParser

struct CompletionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "completion", abstract: "Print the completion script for bash, zsh or fish.",
        discussion: """
            The packages install these scripts. To install one yourself:

              bash  dir=~/.local/share/bash-completion/completions
                    mkdir -p $dir && syncagent completion bash >$dir/syncagent
              zsh   syncagent completion zsh >"${fpath[1]}/_syncagent"
              fish  syncagent completion fish >~/.config/fish/completions/syncagent.fish
            """)

    enum Shell: String, CaseIterable, ExpressibleByArgument {
        case bash, zsh, fish

        var dialect: CompletionShell {
            switch self {
            case .bash: .bash
            case .zsh: .zsh
            case .fish: .fish
            }
        }
    }

    @Argument(help: "The shell.") var shell: Shell

    func run() {
        let script = SyncagentCommand.completionScript(for: shell.dialect)
        // The script is sourced, and needs no `#!` line.
        Output().line(script.hasPrefix("#!") ? String(script.drop { $0 != "\n" }.dropFirst()) : script)
    }
}
