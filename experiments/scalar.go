package experiments

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// Scalar is one value together with the text it was written as, so that 0.90,
// 1e-3 and 08 reach a server as they were typed.
type Scalar struct {
	Text  string
	Value any // nil, bool, int64, float64 or string
}

var (
	intText   = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	floatText = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

// ParseScalar types a plain (unquoted) text. Only null, booleans and numbers
// that JSON could write are typed; on, yes, 08 and .5 are strings.
func ParseScalar(text string) Scalar {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return Scalar{Text: text}
	case "true", "True", "TRUE":
		return Scalar{Text: text, Value: true}
	case "false", "False", "FALSE":
		return Scalar{Text: text, Value: false}
	}
	if intText.MatchString(text) {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return Scalar{Text: text, Value: n}
		}
	}
	if floatText.MatchString(text) {
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return Scalar{Text: text, Value: f}
		}
	}
	return Scalar{Text: text, Value: text}
}

// StringScalar is a text that was quoted: never a number or boolean.
func StringScalar(text string) Scalar { return Scalar{Text: text, Value: text} }

// scalarOf is the scalar of a computed value.
func scalarOf(v any) (Scalar, error) {
	switch v := v.(type) {
	case nil:
		return Scalar{Text: "null"}, nil
	case bool:
		return Scalar{Text: strconv.FormatBool(v), Value: v}, nil
	case int:
		return Scalar{Text: strconv.Itoa(v), Value: int64(v)}, nil
	case int64:
		return Scalar{Text: strconv.FormatInt(v, 10), Value: v}, nil
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return Scalar{}, fmt.Errorf("gives %v, which is no number that a flag could have: it divides by zero", v)
		}
		return Scalar{Text: strconv.FormatFloat(v, 'g', -1, 64), Value: v}, nil
	case string:
		return StringScalar(v), nil
	}
	return Scalar{}, fmt.Errorf("gives a %T, not a number, text, boolean or nil", v)
}

// IsNull says that the value was written as null, ~ or nothing.
func (s Scalar) IsNull() bool { return s.Value == nil }

// Equal compares values; two texts of one number are equal.
func (s Scalar) Equal(o Scalar) bool { return s.Value == o.Value }

// MarshalJSON keeps a number's text; a text is a JSON string.
func (s Scalar) MarshalJSON() ([]byte, error) {
	switch v := s.Value.(type) {
	case nil:
		return []byte("null"), nil
	case bool:
		return strconv.AppendBool(nil, v), nil
	case int64, float64:
		return []byte(s.Text), nil
	}
	return plainJSON(s.Text)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Scalar) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if len(b) > 0 && b[0] == '"' {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		*s = StringScalar(text)
		return nil
	}
	*s = ParseScalar(string(b))
	if _, isText := s.Value.(string); isText {
		return fmt.Errorf("%s is no scalar", b)
	}
	return nil
}

// plainJSON encodes without turning <, > and & into escapes.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
