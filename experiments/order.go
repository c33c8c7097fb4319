package experiments

import "slices"

// turn is one launch in the order of a plan.
type turn struct{ round, group int }

// order arranges the launches of n servers in all rounds. Interleaved, every
// second round runs backwards, so that what drifts evenly over time weighs the
// same on all (two servers: ABBA), and each such pair of rounds begins further
// on, so that no server always comes first or last. The first round is in the
// order of the cells; with after: keep the last one is, whose last server stays.
func (p *Plan) order(n int) []turn {
	var out []turn
	if p.Order == OrderGrid {
		for group := range n {
			for round := range p.Rounds {
				out = append(out, turn{round, group})
			}
		}
		return out
	}
	step := 1
	if p.Kind == KindAA {
		step = 2 // the arms of a cell stay side by side
	}
	for round := range p.Rounds {
		from := round
		if p.After == AfterKeep {
			from = p.Rounds - 1 - round
		}
		groups := make([]int, n)
		for i := range groups {
			groups[i] = i
			if n > 2 {
				groups[i] = (i + from/2*step) % n
			}
		}
		if from%2 == 1 {
			slices.Reverse(groups)
		}
		for _, group := range groups {
			out = append(out, turn{round, group})
		}
	}
	return out
}
