// Package yamlplace finds where the YAML library stumbled.
package yamlplace

import (
	"regexp"
	"strconv"
	"strings"
)

var place = regexp.MustCompile(`(?s)^line ([0-9]+): (.*)$`)

// Of splits a syntax error of yaml.v3 into its line, from 1, and what is wrong
// there; line 0 where the error names none. The library gives the line in its
// text only.
func Of(err error) (line int, msg string) {
	msg = strings.TrimPrefix(err.Error(), "yaml: ")
	m := place.FindStringSubmatch(msg)
	if m == nil {
		return 0, msg
	}
	line, convErr := strconv.Atoi(m[1])
	if convErr != nil { // beyond any file
		return 0, msg
	}
	return line, m[2]
}
