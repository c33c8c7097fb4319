package remote_test

import (
	"context"
	"errors"
	"fmt"

	"specrun/remote"
)

func ExampleHost_Run() {
	h := remote.Local(remote.LocalConfig{})
	defer h.Close()
	res, err := h.Run(context.Background(), remote.Script{
		Name: "greet",
		Text: `main() { echo "hello $who"; [ "$who" != nobody ] || return 3; }`,
		Vars: []remote.Var{{Name: "who", Value: "it's me"}},
	})
	fmt.Printf("%s%v %v\n", res.Stdout, res.Outcome, err)

	_, err = h.Run(context.Background(), remote.Script{
		Name: "greet",
		Text: `main() { echo "no such user" >&2; return 3; }`,
	})
	var exit *remote.ExitError
	fmt.Println(errors.As(err, &exit), err)
	// Output:
	// hello it's me
	// done <nil>
	// true local: script greet: exit 3: no such user
}
