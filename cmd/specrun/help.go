package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is how wide help is: it is read at 80 columns and quoted in mail.
const helpWidth = 80

// arrangeHelp sets how help looks: flags are wrapped, and below a command stand
// only the global ones that mean something there. All are understood everywhere.
func arrangeHelp(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages |", fmt.Sprintf(".FlagUsagesWrapped %d |", helpWidth)))
	show := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if c != root {
			for _, name := range globalFlags {
				root.PersistentFlags().Lookup(name).Hidden = !slices.Contains(globalsOf(c), name)
			}
		}
		show(c, args)
	})
}

var globalFlags = [...]string{"host", "hosts-file", "store", "python", "worker-binary", "json", "quiet", "verbose", "yes", "accept-new"}

// globalsOf gives the global flags that mean something for a command.
func globalsOf(c *cobra.Command) []string {
	const (
		output = "json quiet verbose"
		hosts  = " host hosts-file accept-new"
		write  = " yes"
		engine = " python"
		runs   = " store worker-binary"
	)
	name := commandName(c)
	flags := output
	switch name {
	case "apply", "rollback":
		flags += hosts + engine + write
	case "status":
		flags += hosts + engine
	case "run", "sweep", "probe":
		flags += hosts + engine + runs
	case "resume", "cancel":
		flags += " hosts-file accept-new" + runs
	case "server start":
		flags += hosts + engine
	case "server restart":
		flags += hosts + engine + write
	case "server stop", "lock release":
		flags += hosts + write
	case "init":
		flags += hosts
	case "server status", "server logs", "server saved", "server saved forget", "lock status":
		flags += hosts
	case "list", "show", "watch":
		flags += hosts + " store"
	case "import":
		flags += hosts + engine + " store"
	case "logs": // on the host that the store names
		flags += " hosts-file accept-new store"
	case "compare", "diff", "tag", "export":
		flags += " store"
	case "demo", "lab start":
		flags += engine
	}
	return strings.Fields(flags)
}
