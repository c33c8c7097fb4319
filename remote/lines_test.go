package remote_test

import (
	"reflect"
	"testing"

	"specrun/remote"
)

func TestLines(t *testing.T) {
	got := remote.Lines([]byte("state running\n\nlog /a b/c \nalone\n blank\nlast x"))
	want := []remote.Line{{"state", "running"}, {"log", "/a b/c "}, {"alone", ""}, {"", "blank"}, {"last", "x"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := remote.Lines(nil); len(got) != 0 {
		t.Errorf("of nothing: %q", got)
	}
}
