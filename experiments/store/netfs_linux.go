package store

import "golang.org/x/sys/unix"

// onNetworkFS says whether dir lies on a file system shared between machines.
// When the kernel does not tell, it counts as local.
func onNetworkFS(dir string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC,
		unix.CODA_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.V9FS_MAGIC, unix.CEPH_SUPER_MAGIC,
		unix.FUSE_SUPER_MAGIC, // sshfs, gluster, s3 mounts
		lustreMagic, gpfsMagic:
		return true
	}
	return false
}

// Magic numbers that x/sys does not list.
const (
	lustreMagic = 0x0bd00bd0
	gpfsMagic   = 0x47504653
)
