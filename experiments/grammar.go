package experiments

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// Axis is one key=values argument, or several keys whose values move together.
// Keys[j] takes Rows[i][j] in the i-th value of the axis.
type Axis struct {
	Arg  string // as given, for messages
	Keys []string
	Rows [][]Scalar
}

// Pin says that the axis has a single value.
func (a Axis) Pin() bool { return len(a.Rows) == 1 }

// maxAxisValues bounds what one argument may expand to; more is a typing error.
const maxAxisValues = 10_000

// ParseArgs reads the sweep grammar. Both ends of a range are included:
//
//	steps=1..4            1, 2, 3, 4
//	steps=1..9..2         1, 3, 5, 7, 9
//	conc=1..256x2         1, 2, 4, ... 256
//	x=0.80..0.90..0.05    0.80, 0.85, 0.90
//	mode=prefill,decode   a list; quotes protect commas: attn="a,b",c
//	steps=2               one value pins the key
//	steps+draft=1+2,2+3   linked: steps 1 with draft 2, steps 2 with draft 3
//	patches=none,a+b      patch sets: none, then a and b together
//
// Errors are *ArgError. Whether a key exists is for Resolve to say.
func ParseArgs(args []string) ([]Axis, error) {
	var axes []Axis
	seen := map[string]string{}
	for _, arg := range args {
		axis, err := parseAxis(arg)
		if err != nil {
			return nil, err
		}
		for _, k := range axis.Keys {
			if before, dup := seen[k]; dup {
				return nil, &ArgError{Arg: arg, Msg: fmt.Sprintf("%s is set twice, before by %s", k, before),
					Advice: "give all values in one argument: " + k + "=a,b"}
			}
			seen[k] = arg
		}
		axes = append(axes, axis)
	}
	return axes, nil
}

func parseAxis(arg string) (Axis, error) {
	key, text, ok := strings.Cut(arg, "=")
	if !ok {
		return Axis{}, &ArgError{Arg: arg, Msg: "not of the form key=values", Advice: "for example steps=1..4 or mode=prefill,decode"}
	}
	axis := Axis{Arg: arg, Keys: splitKeys(key)}
	for _, k := range axis.Keys {
		if k == "" {
			return Axis{}, &ArgError{Arg: arg, Msg: "a key is empty"}
		}
	}
	if text == "" {
		return Axis{}, &ArgError{Arg: arg, Msg: "no value", Advice: `an empty text is written ""`}
	}
	items, err := splitItems(text, ',')
	if err != nil {
		return Axis{}, &ArgError{Arg: arg, Msg: err.Error()}
	}
	for _, it := range items {
		rows, err := expandItem(axis.Keys, it)
		if err != nil {
			advice := ""
			if h, ok := err.(*rangeError); ok {
				advice = h.advice
			}
			return Axis{}, &ArgError{Arg: arg, Msg: err.Error(), Advice: advice}
		}
		axis.Rows = append(axis.Rows, rows...)
		if len(axis.Rows) > maxAxisValues {
			return Axis{}, &ArgError{Arg: arg, Msg: fmt.Sprintf("more than %d values", maxAxisValues)}
		}
	}
	return axis, nil
}

// splitKeys splits linked keys at +. The names of flags and variables hold none.
func splitKeys(key string) []string { return strings.Split(key, "+") }

func expandItem(keys []string, it item) ([][]Scalar, error) {
	if len(keys) == 1 {
		if it.quoted {
			return [][]Scalar{{StringScalar(it.text)}}, nil
		}
		if keys[0] == patchesKey {
			return [][]Scalar{{StringScalar(it.text)}}, nil
		}
		values, err := expandRange(it.text)
		if err != nil {
			return nil, err
		}
		rows := make([][]Scalar, len(values))
		for i, v := range values {
			rows[i] = []Scalar{v}
		}
		return rows, nil
	}
	parts, err := splitItems(it.raw, '+')
	if err != nil {
		return nil, err
	}
	if len(parts) != len(keys) {
		return nil, &rangeError{
			fmt.Sprintf("%s has %d values for the %d keys %s", it.raw, len(parts), len(keys), strings.Join(keys, "+")),
			"quote a value that holds a +",
		}
	}
	row := make([]Scalar, len(parts))
	for i, p := range parts {
		if p.quoted {
			row[i] = StringScalar(p.text)
			continue
		}
		if rangeLike.MatchString(p.text) {
			return nil, &rangeError{p.text + ": linked keys take no ranges", "write each value: " + strings.Join(keys, "+") + "=1+2,2+3"}
		}
		row[i] = ParseScalar(p.text)
	}
	return [][]Scalar{row}, nil
}

// item is one element of a list: raw as written, text without quotes.
type item struct {
	raw, text string
	quoted    bool // wholly: it is a text, whatever it looks like
}

// splitItems splits at sep outside quotes. Quotes may be single or double; a
// backslash has no meaning, so a value holds the other kind of quote as is.
func splitItems(s string, sep byte) ([]item, error) {
	var items []item
	var raw, text strings.Builder
	var quote byte
	quoted, plain := false, false
	flush := func() error {
		if raw.Len() == 0 {
			return fmt.Errorf("an element of the list is empty")
		}
		items = append(items, item{raw: raw.String(), text: text.String(), quoted: quoted && !plain})
		raw.Reset()
		text.Reset()
		quoted, plain = false, false
		return nil
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			raw.WriteByte(c)
			if c == quote {
				quote = 0
			} else {
				text.WriteByte(c)
			}
		case (c == '"' || c == '\'') && !plain:
			quote, quoted = c, true
			raw.WriteByte(c)
		case c == sep:
			if err := flush(); err != nil {
				return nil, err
			}
		default:
			plain = true
			raw.WriteByte(c)
			text.WriteByte(c)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a %c is not closed", quote)
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return items, nil
}

var (
	// rangeLike is a text that starts like a range; a path such as ../x does not.
	rangeLike = regexp.MustCompile(`^-?[0-9.]*[0-9]\.\.`)
	rangeText = regexp.MustCompile(`^(-?[0-9]+(?:\.[0-9]+)?)\.\.(-?[0-9]+(?:\.[0-9]+)?)(?:(\.\.|x)([0-9]+(?:\.[0-9]+)?))?$`)
)

type rangeError struct{ msg, advice string }

func (e *rangeError) Error() string { return e.msg }

// expandRange gives the values of a..b, a..b..step or a..bxfactor, ends
// included, or the text itself when it is no range. The arithmetic is decimal:
// values are computed by index and printed with the digits they need.
func expandRange(text string) ([]Scalar, error) {
	if !rangeLike.MatchString(text) {
		return []Scalar{ParseScalar(text)}, nil
	}
	m := rangeText.FindStringSubmatch(text)
	if m == nil {
		return nil, &rangeError{text + " is no range", "a range is 1..4, 1..9..2 or 1..256x2; quote a text that only looks like one"}
	}
	lo, hi, kind, by := decimal(m[1]), decimal(m[2]), m[3], m[4]
	if lo.Cmp(hi) > 0 {
		return nil, &rangeError{text + " is empty", fmt.Sprintf("write the smaller end first: %s..%s", m[2], m[1])}
	}
	switch {
	case kind == "x":
		return multiples(text, m[1], lo, hi, by)
	case kind == "" && digits(m[1]) > 0:
		return nil, &rangeError{text + " has no step", "a range of fractions needs one: " + text + "..0.1"}
	}
	step := big.NewRat(1, 1)
	if kind == ".." {
		step = decimal(by)
	}
	if step.Sign() <= 0 {
		return nil, &rangeError{text + ": the step must be above zero", ""}
	}
	places := max(digits(m[1]), digits(by))
	var out []Scalar
	for v := new(big.Rat).Set(lo); v.Cmp(hi) <= 0; v = new(big.Rat).Add(v, step) {
		if len(out) >= maxAxisValues {
			return nil, &rangeError{fmt.Sprintf("%s has more than %d values", text, maxAxisValues), ""}
		}
		out = append(out, ParseScalar(v.FloatString(places)))
	}
	return out, nil
}

func multiples(text, from string, lo, hi *big.Rat, by string) ([]Scalar, error) {
	factor := decimal(by)
	if factor.Cmp(big.NewRat(1, 1)) <= 0 {
		return nil, &rangeError{text + ": the factor must be above one", ""}
	}
	if lo.Sign() <= 0 {
		return nil, &rangeError{text + ": a range by a factor starts above zero", ""}
	}
	var out []Scalar
	places := digits(from)
	for v := new(big.Rat).Set(lo); v.Cmp(hi) <= 0; v = new(big.Rat).Mul(v, factor) {
		if len(out) >= maxAxisValues {
			return nil, &rangeError{fmt.Sprintf("%s has more than %d values", text, maxAxisValues), ""}
		}
		out = append(out, ParseScalar(v.FloatString(places)))
		places += digits(by)
	}
	return out, nil
}

// decimal reads a text that rangeText has matched.
func decimal(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return new(big.Rat)
	}
	return r
}

// digits counts the decimals of a number's text.
func digits(text string) int {
	_, frac, _ := strings.Cut(text, ".")
	return len(frac)
}
