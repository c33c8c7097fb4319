package experiments

import (
	"errors"
	"fmt"
)

// Kinds of a ServerFlag; the words are those of package engine.
const (
	flagOmitted = "omitted"
	flagBare    = "bare"
	flagValue   = "value"
	flagList    = "list"
	flagRepeat  = "repeat"
	flagJoin    = "join"
	flagJSON    = "json"
)

// serverFlag turns a computed value into what the server gets: true is a bare
// flag, false and null leave it out, a list follows one flag, a map is compact
// JSON in one argument. Texts are passed as they were written.
func serverFlag(name string, v Value) (ServerFlag, error) {
	f := ServerFlag{Name: name}
	switch v.Kind {
	case KindScalar:
		switch value := v.Scalar.Value.(type) {
		case nil:
			f.Kind = flagOmitted
		case bool:
			f.Kind = flagOmitted
			if value {
				f.Kind = flagBare
			}
		default:
			f.Kind, f.Values = flagValue, []string{v.Scalar.Text}
		}
		return f, nil
	case KindMap:
		text, err := v.MarshalJSON()
		if err != nil {
			return f, fmt.Errorf("as JSON: %w", err)
		}
		f.Kind, f.Values = flagJSON, []string{string(text)}
		return f, nil
	case KindList:
		f.Kind = flagList
	case KindRepeat:
		f.Kind = flagRepeat
	case KindJoin:
		f.Kind = flagJoin
	}
	for _, it := range v.Items {
		if it.Scalar.IsNull() {
			return f, errors.New("an element of the list is null")
		}
		f.Values = append(f.Values, it.Scalar.Text)
	}
	if v.Kind == KindJoin {
		text := ""
		for i, s := range f.Values {
			if i > 0 {
				text += v.Sep
			}
			text += s
		}
		f.Values = []string{text}
	}
	return f, nil
}
