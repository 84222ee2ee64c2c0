package sandbox

import (
	"strings"
	"testing"
)

// TestLimits holds each limit on either side.
func TestLimits(t *testing.T) {
	check := func(change func(p *Program, n int64)) func(n int64) error {
		return func(n int64) error {
			p := Program{}
			change(&p, n)
			_, err := Check(p)
			return err
		}
	}
	code := make([]byte, MaxCode+1)
	for _, c := range []struct {
		name  string
		limit int64
		try   func(n int64) error
	}{
		{"MaxMemory", MaxMemory, check(func(p *Program, n int64) { p.Limits.MemBytes = n })},
		{"maxTimeout", maxTimeout, check(func(p *Program, n int64) { p.Limits.TimeoutMS = n })},
		{"maxOutput", maxOutput, check(func(p *Program, n int64) { p.Limits.OutputBytes = n })},
		{"MaxCode", MaxCode, check(func(p *Program, n int64) { p.Code = code[:n] })},
		{"MaxAsset", MaxAsset, func(n int64) error { return Assets([]Asset{{Name: "a", Size: n}}) }},
		{"maxAssetName", maxAssetName, func(n int64) error { return Assets([]Asset{{Name: strings.Repeat("a", int(n))}}) }},
		{"MaxAssets", MaxAssets, func(n int64) error {
			var list []Asset
			for i := range n {
				list = append(list, Asset{Name: string(rune('a' + i))})
			}
			return Assets(list)
		}},
		{"floodLog", floodLog, func(n int64) error { _, err := NewLog(nil).Write(make([]byte, n)); return err }},
	} {
		if err := c.try(c.limit); err != nil {
			t.Errorf("%s at the limit: %v", c.name, err)
		}
		if err := c.try(c.limit + 1); err == nil {
			t.Errorf("%s: %d accepted", c.name, c.limit+1)
		}
	}
	for n, want := range map[int]int{MaxLog: MaxLog, MaxLog + 1: MaxLog} {
		l := NewLog(nil)
		l.Write(make([]byte, n))
		if len(l.Bytes()) != want {
			t.Errorf("a log of %d bytes: got %d, want %d", n, len(l.Bytes()), want)
		}
	}
}
