// Package report turns stored results into what people and programs read: the
// table of a sweep, lists, one run, the differences between two runs. It
// computes from stored values only and asks no host.
//
// Summarize makes of a sweep one row for each cell. A launch counts as one
// value, the median of its runs; a row's number is the median of its launches
// with the interval of package stats. Exactly one row is best, unless none can
// be: the best median of the objective among the cells without a failed run. Where
// outputs are not equally long, what ranks are the positions that all cells have;
// ratios to the baseline rest on those that the two have, and are judged together.
//
// Every row marshals to the JSON line of its kind; WriteTable, WriteList and the
// like write text that is the same on a terminal and in a pipe. Numbers come
// with their doubt: ± is the interval, ~ says that a difference may be noise.
//
//	r := report.Summarize(view, report.Options{Advice: trust.Advice, CellLabels: trust.AssessCell})
//	err := r.WriteTable(os.Stdout)
//
// Compare says of two sides (runs, cells, sweeps or files) whether b differs from
// a, after it has refused unlike work; DiffSides ranks what differs in their
// provenance by one table of what is known to matter, in causes.go:
//
//	c, err := report.Compare(a, b, report.CompareOptions{Limit: 0.03})
//	err = c.WriteText(os.Stdout, report.Options{})
//	err = c.Regression() // *RegressionError
//
// An Export writes runs for other programs, labels and failed checks with them:
//
//	e, err := report.NewExport(file, report.FormatCSV, report.ExportOptions{})
//	err = e.Add(side, report.Options{CellLabels: trust.AssessCell}) // for each side
//	count, err := e.Close()
package report
