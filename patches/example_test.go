package patches_test

import (
	"bytes"
	"errors"
	"fmt"

	"specrun/patches"
)

func ExampleApply() {
	p, err := patches.Lookup("profiling-v4")
	if err != nil {
		fmt.Println(err)
		return
	}
	src := []byte("class EAGLEWorker:\n    pass\n")
	patched, err := patches.Apply(p, p.Targets[0], src)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = patches.Apply(p, p.Targets[0], patched)
	fmt.Println(errors.Is(err, patches.ErrAlreadyApplied))

	fences, err := patches.FindFence(patched)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(fences[0].Name, fences[0].Version, bytes.Equal(fences[0].Cut(patched), src))
	// Output:
	// true
	// profiling-v4 1 true
}
