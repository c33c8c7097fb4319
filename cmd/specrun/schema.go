package main

import (
	"github.com/spf13/cobra"

	"specrun/experiments/trust"
)

func newSchemaCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the tables behind the output, such as the labels",
		Args:  noArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:     "labels",
		Short:   "Print what each label says about a number, when it is given and what to do",
		Example: "  specrun schema labels",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			var rows [][]string
			for _, l := range trust.Labels() {
				if a.flags.json {
					a.line("label", l)
					continue
				}
				rows = append(rows, []string{l.Name, l.Meaning, l.Rule, l.Advice})
			}
			a.table([]string{"LABEL", "MEANING", "GIVEN WHEN", "WHAT TO DO"}, rows)
			return nil
		},
	})
	return c
}
