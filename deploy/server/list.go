package server

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"specrun/remote"
)

// Listed is a launch whose server process lives.
type Listed struct {
	State
	Port    int       // 0 when the launch names none
	Listens bool      // somebody listens on Port: the server, once it is up
	Started time.Time // host's clock, whole seconds
	Age     time.Duration
	About   string // of its Launch; "" when nothing was kept
}

// List finds the launches on the host whose server process lives, in the order
// of their ids, ready or not, whoever started them with this state folder. It
// changes nothing.
func List(ctx context.Context, h Host, stateDir string) ([]Listed, error) {
	res, err := h.Run(ctx, script("list", listText, remote.Var{Name: "STATE", Value: stateDir}))
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	var launches [][]remote.Line
	for _, f := range remote.Lines(res.Stdout) {
		if f.Key == "launch" {
			launches = append(launches, nil)
		}
		if n := len(launches); n > 0 {
			launches[n-1] = append(launches[n-1], f)
		}
	}
	var all []Listed
	for _, l := range launches {
		listed, err := parseListed(h.Name(), stateDir, l)
		if err != nil {
			return nil, err
		}
		all = append(all, listed)
	}
	return all, nil
}

func parseListed(host, stateDir string, launch []remote.Line) (Listed, error) {
	st, err := parseState(host, stateDir, launch[0].Value, 0, launch)
	l := Listed{State: st}
	var now int64
	for _, f := range launch {
		if err != nil {
			break
		}
		var n int64
		switch f.Key {
		case "port":
			l.Port, err = strconv.Atoi(f.Value)
		case "listens":
			l.Listens = true
		case "began":
			n, err = strconv.ParseInt(f.Value, 10, 64)
			l.Started = time.Unix(n, 0)
		case "now":
			now, err = strconv.ParseInt(f.Value, 10, 64)
		case "about":
			l.About = f.Value
		}
	}
	if err != nil {
		return Listed{}, fmt.Errorf("%s: list servers: %w", host, err)
	}
	l.Age = max(0, time.Duration(now-l.Started.Unix())*time.Second)
	return l, nil
}
