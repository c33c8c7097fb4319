package origin

import (
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// scalar is a YAML node that the experiment file reads back as this very text.
func scalar(text string) *yaml.Node {
	return node(strings.ReplaceAll(text, "${", "$${"))
}

var plainText = regexp.MustCompile(`^(-{0,2}[A-Za-z0-9]|[_./~])([A-Za-z0-9_./:@%+,=~ -]*[A-Za-z0-9_./@%+,=~-])?$`)

// reserved are plain words that mean something else than their text.
var reserved = []string{"null", "~", "true", "false", "yes", "no", "on", "off", "y", "n", ".nan", ".inf"}

// node is scalar without escaping of templates.
func node(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	switch {
	case plainText.MatchString(text) && !strings.Contains(text, ": ") && !slices.Contains(reserved, strings.ToLower(text)):
	case strings.HasPrefix(text, "${") && strings.Index(text, "}") == len(text)-1 && !strings.ContainsAny(text, ":?#\"'\n"):
		// ${steps} reads better without quotes.
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) || text == "":
		n.Style, n.Tag = yaml.DoubleQuotedStyle, "!!str"
	default:
		n.Style, n.Tag = yaml.SingleQuotedStyle, "!!str"
	}
	return n
}
