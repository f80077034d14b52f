import SyncSystem

/// A set of files as a project has it, made from a seed: equal seeds give equal trees.
public struct AssetTree: Sendable {
    /// What stands at one path.
    public enum Node: Sendable, Equatable {
        /// A file with its content.
        case file([UInt8], executable: Bool)
        /// A symbolic link with its target.
        case link(String)
    }

    /// Relative paths, `/`-separated, and what stands there.
    public var nodes: [String: Node]

    /// Makes a tree.
    public init(_ nodes: [String: Node] = [:]) { self.nodes = nodes }

    /// Paths in byte order.
    public var paths: [String] { nodes.keys.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) } }

    /// Sum of the files' sizes in **bytes**.
    public var byteCount: Int {
        nodes.values.reduce(0) { sum, node in if case .file(let bytes, _) = node { sum + bytes.count } else { sum } }
    }

    /// The content of a file; `nil` for links and where nothing is.
    public func bytes(_ path: String) -> [UInt8]? { if case .file(let bytes, _) = nodes[path] { bytes } else { nil } }

    /// Puts a file of `size` **bytes** made from `seed`.
    public mutating func addFile(_ path: String, size: Int, seed: UInt64, executable: Bool = false) {
        nodes[path] = .file(patternedBytes(size: size, seed: seed), executable: executable)
    }

    /// Puts a text file.
    public mutating func addText(_ path: String, _ text: String) {
        nodes[path] = .file(Array(text.utf8), executable: false)
    }

    /// This tree and another; on equal paths the other wins.
    public func merged(with other: AssetTree) -> AssetTree { AssetTree(nodes.merging(other.nodes) { _, new in new }) }

    // MARK: Kinds of trees

    /// Many files of 0 to `largest` **bytes** in directories of about 50.
    public static func manySmall(_ count: Int, largest: Int = 4_096, seed: UInt64 = 1) -> AssetTree {
        var tree = AssetTree()
        var state = seed
        for index in 0..<count {
            let size = Int(nextSplitMix64(&state) % UInt64(largest + 1))
            tree.addFile("sheets/d\(index / 50)/A-\(index).bin", size: size, seed: seed &+ UInt64(index))
        }
        return tree
    }

    /// A few files of `size` **bytes** each.
    public static func large(_ count: Int, size: Int, seed: UInt64 = 2) -> AssetTree {
        var tree = AssetTree()
        for index in 0..<count { tree.addFile("models/m\(index).ifc", size: size, seed: seed &+ UInt64(index)) }
        return tree
    }

    /// Text that compresses well, so that publishers store it as zstd.
    public static func compressible(_ count: Int, lines: Int = 400) -> AssetTree {
        var tree = AssetTree()
        for index in 0..<count {
            let text = (0..<lines).map { "layer \(index) line \($0 % 17) 0 0 0 0 0 0\n" }.joined()
            tree.addText("text/t\(index).dxf", text)
        }
        return tree
    }

    /// Names that are legal and rare: spaces, quotes, non-ASCII, leading dashes and dots, 255 bytes, deep.
    public static func oddNames(seed: UInt64 = 3) -> AssetTree {
        let names = [
            "with space.txt", "quote'and\"double.txt", "-leading-dash", "..three-dots.", "dollar$HOME", "star*?[a].txt",
            "percent%2Fslash", "hash#fragment?query", "back\\slash", "semi;colon&amp", "Grundriß-Übersicht.pdf",
            "平面図.dwg", "emoji-🏗️.png", "tilde~", "UPPER.TXT", "upper.txt", "trailing dot.", "colon:stream",
            String(repeating: "n", count: 255), "d1/d2/d3/d4/d5/d6/d7/d8/deep.txt", "a b/c d/e f", "empty",
        ]
        var tree = AssetTree()
        for (index, name) in names.enumerated() {
            tree.addFile("odd/\(name)", size: name == "empty" ? 0 : 10 + index, seed: seed &+ UInt64(index))
        }
        return tree
    }

    /// Links to a file, to a directory and to nothing, and executable files.
    public static func linksAndPrograms(seed: UInt64 = 4) -> AssetTree {
        var tree = AssetTree()
        tree.addFile("bin/run", size: 100, seed: seed, executable: true)
        tree.addFile("bin/plain", size: 100, seed: seed)
        tree.addFile("data/v2/a.bin", size: 50, seed: seed &+ 1)
        tree.nodes["latest"] = .link("data/v2")
        tree.nodes["data/a.bin"] = .link("v2/a.bin")
        tree.nodes["data/missing"] = .link("v3/none.bin")
        return tree
    }

    /// A little of everything, about 60 files and 1 MiB.
    public static func mixed(seed: UInt64 = 5) -> AssetTree {
        manySmall(30, seed: seed).merged(with: large(1, size: 700_000, seed: seed)).merged(with: compressible(4))
            .merged(with: oddNames(seed: seed)).merged(with: linksAndPrograms(seed: seed))
    }

    // MARK: On disk

    /// Writes the tree below a directory.
    public func write(to root: TemporaryRoot, under prefix: String = "") throws(TestKitError) {
        for path in paths {
            let target = prefix.isEmpty ? path : "\(prefix)/\(path)"
            switch nodes[path] {
            case .file(let bytes, let executable): try root.write(bytes, to: target, executable: executable)
            case .link(let goal): try root.link(target, to: goal)
            case nil: break
            }
        }
    }

    /// Reads a tree from disk; names at the top that `ignoring` holds are left out, and empty directories.
    public static func read(_ directory: String, ignoring: Set<String> = [".syncagent"]) -> AssetTree {
        var tree = AssetTree()
        tree.read(directory, prefix: "", ignoring: ignoring)
        return tree
    }

    private mutating func read(_ directory: String, prefix: String, ignoring: Set<String>) {
        guard let found = names(in: directory) else {
            // Too many open files, for one: what cannot be looked at is not taken for missing.
            if status(of: directory) != nil { nodes[prefix + "(unreadable)"] = .link("") }
            return
        }
        for name in found where !ignoring.contains(name) {
            let path = "\(directory)/\(name)"
            let looked = status(of: path)
            switch looked?.kind {
            case .directory: read(path, prefix: "\(prefix)\(name)/", ignoring: [])
            case .file:
                let isExecutable = looked?.isExecutable ?? false
                nodes[prefix + name] = .file(contents(of: path) ?? [], executable: isExecutable)
            case .link:
                let target = readLink(currentDirectory, path) ?? []
                nodes[prefix + name] = .link(String(decoding: target, as: UTF8.self))
            case .other, nil: nodes[prefix + name] = .link("(neither file nor link)")
            }
        }
    }

    /// What is wrong on disk, one line each: files with other bytes than here, and, unless `partial`, missing
    /// ones. Names that this tree does not have are wrong too.
    public func problems(in directory: String, partial: Bool = false) -> [String] {
        let found = AssetTree.read(directory)
        var problems: [String] = []
        for path in paths where found.nodes[path] != nodes[path] {
            if found.nodes[path] != nil {
                problems.append("\(path): not as published")
            } else if !partial {
                problems.append("\(path): missing")
            }
        }
        return problems + found.paths.filter { nodes[$0] == nil }.map { "\($0): foreign" }
    }
}
