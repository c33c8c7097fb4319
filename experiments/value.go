package experiments

import (
	"encoding/json"
	"strings"
)

// ValueKind says how a flag's value was written.
type ValueKind int

// Kinds of flag values.
const (
	KindScalar ValueKind = iota
	KindList             // [a, b]: --flag a b
	KindRepeat           // {repeat: [a, b]}: --flag a --flag b
	KindJoin             // {join: ",", values: [a, b]}: --flag a,b
	KindMap              // any other map: compact JSON in one argument
)

// Value is a flag's value. Within a KindMap, lists and maps nest freely.
type Value struct {
	Kind   ValueKind
	Scalar Scalar
	Items  []Value // of a list, repeat or join
	Sep    string  // of a join
	Fields []Field // of a map, in the order of the file
	Pos    Pos
}

// Field is one entry of a map.
type Field struct {
	Name  string
	Value Value
}

// MarshalJSON gives the shape of the experiment file. For a map that is also
// the text the server gets.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.Kind {
	case KindList:
		return plainJSON(v.Items)
	case KindRepeat:
		return plainJSON(object{{"repeat", v.Items}})
	case KindJoin:
		return plainJSON(object{{"join", v.Sep}, {"values", v.Items}})
	case KindMap:
		o := make(object, len(v.Fields))
		for i, f := range v.Fields {
			o[i] = member{f.Name, f.Value}
		}
		return plainJSON(o)
	}
	return v.Scalar.MarshalJSON()
}

// object is a JSON object that keeps its order.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := plainJSON(m.name)
		if err != nil {
			return nil, err
		}
		value, err := plainJSON(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

var _ json.Marshaler = object(nil)

// expandValue computes every scalar of a flag's value for one cell.
func (x *expressions) expandValue(v Value, env cellEnv) (Value, error) {
	var err error
	switch v.Kind {
	case KindScalar:
		v.Scalar, err = x.expand(v.Scalar, env)
		return v, err
	case KindMap:
		fields := make([]Field, len(v.Fields))
		for i, f := range v.Fields {
			fields[i] = f
			if fields[i].Value, err = x.expandValue(f.Value, env); err != nil {
				return v, err
			}
		}
		v.Fields = fields
		return v, nil
	}
	items := make([]Value, len(v.Items))
	for i, it := range v.Items {
		if items[i], err = x.expandValue(it, env); err != nil {
			return v, err
		}
	}
	v.Items = items
	return v, nil
}

// scalars calls f for every scalar within the value.
func (v Value) scalars(f func(Scalar, Pos) error) error {
	if v.Kind == KindScalar {
		return f(v.Scalar, v.Pos)
	}
	for _, it := range v.Items {
		if err := it.scalars(f); err != nil {
			return err
		}
	}
	for _, fd := range v.Fields {
		if err := fd.Value.scalars(f); err != nil {
			return err
		}
	}
	return nil
}
