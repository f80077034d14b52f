import CPosix

/// errno(3) of this thread; Swift does not import the macro.
var errno: Int32 {
    get { sa_errno() }
    set { sa_set_errno(newValue) }
}
