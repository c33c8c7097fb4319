package deploy

import (
	"fmt"
	"io/fs"
	"syscall"
)

func owner(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "?"
	}
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}
