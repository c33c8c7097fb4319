package store

import "golang.org/x/sys/unix"

// onNetworkFS says whether dir lies on a file system shared between machines.
// When the kernel does not tell, it counts as local.
func onNetworkFS(dir string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return false
	}
	return st.Flags&unix.MNT_LOCAL == 0
}
