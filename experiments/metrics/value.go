package metrics

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Value is one cell of a series: a number (which may be NaN or infinite, as the
// source printed it), a word such as True, or nothing.
type Value struct {
	num  float64
	word string
	kind valueKind
}

type valueKind uint8

const (
	valueNull valueKind = iota
	valueNumber
	valueWord
)

// Number is a value that is a number, NaN and infinities included.
func Number(f float64) Value { return Value{num: f, kind: valueNumber} }

// Word is a value that is text, such as the True of "cuda graph: True".
func Word(s string) Value { return Value{word: s, kind: valueWord} }

// Null is a cell without a value: the row was there, the number was not.
func Null() Value { return Value{} }

// Float returns the number; ok is false for a word or an empty cell.
func (v Value) Float() (f float64, ok bool) { return v.num, v.kind == valueNumber }

// IsNull says whether the cell holds nothing.
func (v Value) IsNull() bool { return v.kind == valueNull }

// String is the value as a person reads it.
func (v Value) String() string {
	switch v.kind {
	case valueNumber:
		return strconv.FormatFloat(v.num, 'g', -1, 64)
	case valueWord:
		return v.word
	}
	return ""
}

// MarshalJSON writes NaN and infinities as the strings "NaN", "Inf", "-Inf" and
// an empty cell as null.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.kind {
	case valueNumber:
		switch {
		case math.IsNaN(v.num):
			return []byte(`"NaN"`), nil
		case math.IsInf(v.num, 1):
			return []byte(`"Inf"`), nil
		case math.IsInf(v.num, -1):
			return []byte(`"-Inf"`), nil
		}
		return json.Marshal(v.num)
	case valueWord:
		return json.Marshal(v.word)
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (v *Value) UnmarshalJSON(b []byte) error {
	var x any
	if err := json.Unmarshal(b, &x); err != nil {
		return err
	}
	switch x := x.(type) {
	case nil:
		*v = Null()
	case float64:
		*v = Number(x)
	case string:
		if f, ok := special(x); ok {
			*v = Number(f)
		} else {
			*v = Word(x)
		}
	default:
		return fmt.Errorf("metric value %s is neither number, string nor null", b)
	}
	return nil
}

// special reads the spellings of not-a-number and infinity.
func special(s string) (float64, bool) {
	switch strings.ToLower(s) {
	case "nan", "-nan", "+nan":
		return math.NaN(), true
	case "inf", "+inf", "infinity", "+infinity":
		return math.Inf(1), true
	case "-inf", "-infinity":
		return math.Inf(-1), true
	}
	return 0, false
}

// absent says whether a cell's text stands for "no value".
func absent(s string) bool {
	switch strings.ToLower(strings.Trim(s, " []")) {
	case "", "-", "--", "---", "n/a", "na", "none", "null", "not supported", "unknown error", "not set":
		return true
	}
	return false
}

// parseNumber reads a printed number: sign, thousands separators, a decimal
// comma, exponents without sign, nan and inf. shift moves the decimal point
// (3 turns seconds into milliseconds) in decimal, so that no binary rounding is
// added.
func parseNumber(s string, shift int) (float64, bool) {
	s = strings.TrimSpace(s)
	if f, ok := special(s); ok {
		return f, true
	}
	s, ok := plainDigits(s)
	if !ok {
		return 0, false
	}
	mant, exp := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(strings.TrimPrefix(s[i+1:], "+"))
		if err != nil {
			return 0, false
		}
		mant, exp = s[:i], e
	}
	f, err := strconv.ParseFloat(fmt.Sprintf("%se%d", mant, exp+shift), 64)
	if err != nil {
		return 0, false
	}
	return f, true
}

// plainDigits removes grouping and makes the decimal mark a point; ok is false
// for anything that is not a decimal number.
func plainDigits(s string) (string, bool) {
	s = strings.TrimPrefix(s, "+")
	body := strings.TrimPrefix(s, "-")
	if body == "" || !(body[0] == '.' || isDigit(body[0])) {
		return "", false
	}
	for i := 0; i < len(body); i++ {
		c := body[i]
		if !isDigit(c) && !strings.ContainsRune(".,eE+-", rune(c)) {
			return "", false
		}
	}
	switch commas := strings.Count(s, ","); {
	case commas == 0:
	case strings.Contains(s, "."), commas > 1, groupsOfThree(body):
		s = strings.ReplaceAll(s, ",", "")
	default:
		s = strings.Replace(s, ",", ".", 1)
	}
	return s, true
}

// groupsOfThree says whether a number with one comma and no point reads as
// grouped thousands (1,234) rather than as a decimal comma (20,14).
func groupsOfThree(s string) bool {
	i := strings.IndexByte(s, ',')
	return i >= 1 && i <= 3 && len(s)-i-1 == 3 && s[0] != '0'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
