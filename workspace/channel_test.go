package workspace

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
)

// link returns version n of a chain.
func link(n int) *ChannelVersion {
	return &ChannelVersion{ChannelDocument: ChannelDocument{Version: n}, Manifest: fmt.Sprint(n)}
}

// A chain is read down to the last version, within its limit.
func TestMaxChannelChain(t *testing.T) {
	for _, last := range []int{1, 7} {
		for more, ok := range map[int]bool{maxChannelChain: true, maxChannelChain + 1: false} {
			reads := 0
			list, err := chain(link(last+more), last, func(v *ChannelVersion) (*ChannelVersion, error) {
				reads++
				return link(v.Version - 1), nil
			})
			switch {
			case ok && (err != nil || len(list) != more+1 || list[more].Version != last || reads != more):
				t.Errorf("%d versions after %d: %d read, %v", more, last, reads, err)
			case !ok && (!hasCode(err, diag.BadChannel) || reads != 0):
				t.Errorf("%d versions after %d: %d read, %v", more, last, reads, err)
			}
		}
	}
	if list, err := chain(link(3), 3, nil); err != nil || len(list) != 1 {
		t.Errorf("the version itself: %v, %v", list, err)
	}
}

// FuzzChannelDocument parses documents and compares them with their place.
func FuzzChannelDocument(f *testing.F) {
	good := `{"repository":"team/p","channel":"prod","version":2,"digest":"sha256:` + strings.Repeat("0", 64) + `","previous":"sha256:` + strings.Repeat("1", 64) + `","created":"2026-01-01T00:00:00Z","expires":"2026-02-01T00:00:00Z","evidence":["x"]}`
	f.Add([]byte(good), 2)
	f.Add([]byte(`{"version":-1,"expires":"never"}`), -1)
	f.Add([]byte(`[]`), 0)
	c := &channel{repository: "team/p", name: "prod"}
	f.Fuzz(func(t *testing.T, data []byte, version int) {
		d, err := parseChannel(data)
		if err != nil {
			return
		}
		v := &ChannelVersion{ChannelDocument: d}
		if err := c.check("team/p:channel", version, v); err != nil {
			if !hasCode(err, diag.BadChannel) {
				t.Fatal(err)
			}
			return
		}
		if d.Version != version || d.Repository != "team/p" || d.Channel != "prod" || (d.Version == 1) != (d.Previous == "") {
			t.Fatalf("accepted %+v", d)
		}
		again, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		same, err := parseChannel(again)
		if err != nil || same.Digest != d.Digest || same.Expires != d.Expires {
			t.Fatalf("%s reads as %+v, %v", again, same, err)
		}
	})
}

// Documents whose version is not positive are refused.
func TestChannelVersion(t *testing.T) {
	c := &channel{repository: "team/p", name: "prod"}
	for version, want := range map[int]bool{1: true, 0: false, -1: false} {
		v := &ChannelVersion{ChannelDocument: ChannelDocument{Repository: "team/p", Channel: "prod", Version: version, Digest: "sha256:" + strings.Repeat("0", 64)}}
		if version != 1 {
			v.Previous = "x"
		}
		if err := c.check("x", version, v); (err == nil) != want {
			t.Errorf("version %d: %v", version, err)
		}
	}
}
