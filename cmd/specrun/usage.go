package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"specrun/internal/edit"
)

// usageOf makes of what cobra says about a command line an error that says what
// to do next. It reads --json, which cobra may not have come to.
func (a *app) usageOf(root *cobra.Command, args []string, err error) error {
	flags := root.PersistentFlags()
	flags.ParseErrorsAllowlist.UnknownFlags = true
	// What is wrong with the flags is err already; only what can be read counts.
	_ = flags.Parse(args)
	var known *usageError
	if errors.As(err, &known) {
		return err
	}
	if _, _, lost := root.Find(args); lost != nil && flags.NArg() > 0 {
		return unknownCommand(root, flags.Arg(0))
	}
	return usagef(root.Name()+" --help", "%s", err)
}

// unknownCommand names the command that may be meant.
func unknownCommand(parent *cobra.Command, name string) error {
	var names []string
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usagef(didYouMean(name, names, parent.CommandPath()+" --help lists the commands"), "unknown command %q for %q", name, parent.CommandPath())
}

// flagError is what is wrong with a flag of a command, and the nearest flag when
// there is none of that name.
func flagError(c *cobra.Command, err error) error {
	hint := c.CommandPath() + " --help lists the flags"
	var named interface{ GetSpecifiedName() string }
	if errors.As(err, &named) && c.Flag(named.GetSpecifiedName()) == nil {
		if flag := nearest(named.GetSpecifiedName(), flagNames(c)); flag != "" {
			hint = "did you mean --" + flag + "?"
		}
	}
	var number *strconv.NumError
	if errors.As(err, &number) {
		// In the words of a user, not of the function that read it.
		want := "no number"
		if errors.Is(number.Err, strconv.ErrRange) {
			want = "too large"
		} else if number.Func == "ParseBool" {
			want = "neither true nor false"
		}
		err = errors.New(strings.TrimSuffix(err.Error(), number.Error()) + want)
	}
	return usagef(hint, "%s", err)
}

// didYouMean is a hint that names the nearest of known, or else other.
func didYouMean(word string, known []string, other string) string {
	if n := nearest(word, known); n != "" {
		return "did you mean " + n + "?"
	}
	return other
}

// nearest gives the word of known that differs least from a mistyped one, ""
// when none is near enough to be meant.
func nearest(word string, known []string) string {
	best, least := "", max(1, len(word)/3)+1
	for _, k := range known {
		if d := edit.Distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// needs is the check of a command that cannot do without so many arguments,
// such as "a PATCH", and takes at most so many, any number for 0.
func needs(what string, least, most int, hint string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least {
			return usagef(hint, "%s needs %s", commandName(c), what)
		}
		if most == 0 {
			return nil
		}
		return tooMany(c, args, most)
	}
}

// atMost is the check of a command whose arguments may be left out.
func atMost(most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error { return tooMany(c, args, most) }
}

// noArgs is the check of a command without arguments. What is given to a group
// of commands is taken for one of them.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 && c.HasSubCommands() {
		return unknownCommand(c, args[0])
	}
	return tooMany(c, args, 0)
}

func tooMany(c *cobra.Command, args []string, most int) error {
	switch {
	case len(args) <= most:
		return nil
	case most == 0:
		return usagef(c.CommandPath()+" --help", "%s takes no arguments: %s", commandName(c), strings.Join(args, " "))
	}
	return usagef(c.CommandPath()+" --help", "%s takes %s: %s is too many", commandName(c), counted(most, "argument"), strings.Join(args[most:], " "))
}

// commandName is a command without the program's name before it.
func commandName(c *cobra.Command) string {
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "ss"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func flagNames(c *cobra.Command) []string {
	var names []string
	for _, word := range strings.Fields(c.Flags().FlagUsages()) {
		if name, ok := strings.CutPrefix(word, "--"); ok && c.Flag(name) != nil {
			names = append(names, name)
		}
	}
	return names
}
