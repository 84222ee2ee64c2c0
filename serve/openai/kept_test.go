package openai

import (
	"strconv"
	"strings"
	"testing"

	"mm-abi.org/mm/runtimes/talk"
)

// The oldest conversations are dropped beyond maxKept, and beyond maxKeptBytes; each is found
// with its key only.
func TestKept(t *testing.T) {
	k := &kept{all: map[string]conversation{}}
	for i := range maxKept + 1 {
		k.put(strconv.Itoa(i), "ann", []talk.Message{talk.Text(talk.User, "hi")})
		if _, ok := k.get("0", "ann"); ok != (i < maxKept) {
			t.Fatalf("after %d: first found %v", i+1, ok)
		}
	}
	if _, ok := k.get("1", "ben"); ok {
		t.Error("found with another key")
	}
	half := strings.Repeat("x", maxKeptBytes/2)
	k = &kept{all: map[string]conversation{}}
	for i, want := range []bool{true, true, false} {
		k.put(strconv.Itoa(i), "", []talk.Message{talk.Text(talk.User, half)})
		if _, ok := k.get("0", ""); ok != want {
			t.Errorf("after %d: first found %v, want %v", i+1, ok, want)
		}
	}
	k.put("large", "", []talk.Message{talk.Text(talk.User, half+half+"x")})
	if _, ok := k.get("large", ""); ok || k.bytes != 0 {
		t.Errorf("large: found %v, %d bytes", ok, k.bytes)
	}
}
