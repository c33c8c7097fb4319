package main

import "os"

// demoFolder makes the folder of a demo; remove deletes it unless it is kept.
func demoFolder(keep bool) (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp("", "specrun-demo-")
	if err != nil {
		return "", nil, err
	}
	if keep {
		return dir, func() error { return nil }, nil
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}
