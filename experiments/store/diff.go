package store

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"specrun/experiments/record"
)

// Diff reads two runs, by id or prefix, and gives the facts of provenance that
// differ between them, sorted by group and key. No difference gives none.
func (s *Store) Diff(ctx context.Context, a, b string) (left, right record.RunView, diff []record.Difference, err error) {
	if left, err = s.Run(ctx, a); err != nil {
		return left, right, nil, fmt.Errorf("diff: %w", err)
	}
	if right, err = s.Run(ctx, b); err != nil {
		return left, right, nil, fmt.Errorf("diff: %w", err)
	}
	return left, right, Differences(left.Data.Provenance, right.Data.Provenance), nil
}

// Differences compares two sets of facts, whatever their order. A key that
// occurs several times counts as one fact with all its values.
func Differences(a, b []record.Fact) []record.Difference {
	left, right := byKey(a), byKey(b)
	var out []record.Difference
	for k, v := range left {
		if other, ok := right[k]; !ok {
			out = append(out, record.Difference{Group: k.group, Key: k.key, A: &v})
		} else if other != v {
			out = append(out, record.Difference{Group: k.group, Key: k.key, A: &v, B: &other})
		}
	}
	for k, v := range right {
		if _, ok := left[k]; !ok {
			out = append(out, record.Difference{Group: k.group, Key: k.key, B: &v})
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Group != out[j].Group {
			return out[i].Group < out[j].Group
		}
		return out[i].Key < out[j].Key
	})
	return out
}

type factKey struct{ group, key string }

func byKey(facts []record.Fact) map[factKey]string {
	values := map[factKey][]string{}
	for _, f := range facts {
		k := factKey{f.Group, f.Key}
		values[k] = append(values[k], f.Value)
	}
	out := make(map[factKey]string, len(values))
	for k, v := range values {
		sort.Strings(v)
		out[k] = strings.Join(v, "\n")
	}
	return out
}
