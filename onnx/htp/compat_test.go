package htp_test

import (
	"testing"

	"mm-abi.org/mm/onnx/htp"
)

func TestFind(t *testing.T) {
	v := func(a, b, c uint32) htp.Version { return htp.Version{Major: a, Minor: b, Patch: c} }
	got := htp.FindSDK(v(2, 47, 9))
	if got.Core != v(2, 36, 0) || got.Backend != v(5, 47, 0) || got.System != v(1, 11, 0) || got.Blob != v(3, 3, 4) {
		t.Errorf("%+v", got)
	}
	if got := htp.FindSDK(v(2, 35, 0)); got.Backend != v(5, 35, 0) || got.Core != v(0, 0, 0) {
		t.Errorf("%+v", got)
	}
	if got := htp.FindSDK(v(3, 1, 0)); got.Backend != v(0, 0, 0) {
		t.Errorf("the rule of 2.n was applied to %+v", got)
	}
}

// The rows ascend, the versions never fall, and the rule holds in all.
func TestTable(t *testing.T) {
	var before htp.SDK
	for _, s := range htp.SDKs() {
		if s.Version.Compare(before.Version) <= 0 || s.Source == "" {
			t.Errorf("%v after %v, from %q", s.Version, before.Version, s.Source)
		}
		if s.Backend != (htp.Version{Major: 5, Minor: s.Version.Minor}) {
			t.Errorf("%v has the interface %v", s.Version, s.Backend)
		}
		for name, pair := range map[string][2]*htp.Version{"core": {&before.Core, &s.Core}, "system": {&before.System, &s.System}, "blob": {&before.Blob, &s.Blob}} {
			if *pair[1] == (htp.Version{}) {
				*pair[1] = *pair[0]
			}
			if pair[1].Compare(*pair[0]) < 0 {
				t.Errorf("%v: %s %v after %v", s.Version, name, *pair[1], *pair[0])
			}
		}
		before = s
	}
	for _, x := range htp.Tools() {
		if x.Name == "" || x.Version == "" || x.SDK.Major != 2 || x.Source == "" {
			t.Errorf("%+v", x)
		}
	}
}
