package sandbox

import (
	"strings"
	"testing"

	"mm-abi.org/mm/modules"
)

func TestBuffer(t *testing.T) {
	full := 0
	b := NewBuffer(5, func() { full++ })
	for i, c := range []struct {
		text string
		ok   bool
	}{{"abc", true}, {"de", true}, {"f", false}, {"", false}} {
		if n, err := b.Write([]byte(c.text)); (err == nil) != c.ok || c.ok && n != len(c.text) {
			t.Errorf("write %d: %d, %v", i, n, err)
		}
	}
	if string(b.Bytes()) != "abcde" || !b.Over() || full != 1 {
		t.Errorf("%q, over %v, full %d times", b.Bytes(), b.Over(), full)
	}
}

func TestLog(t *testing.T) {
	full := 0
	l := NewLog(func() { full++ })
	l.Write([]byte("begin"))
	for range 3000 {
		if n, err := l.Write([]byte("0123456789")); n != 10 || err != nil {
			t.Fatal(n, err)
		}
	}
	l.Write([]byte("end"))
	got := string(l.Bytes())
	if len(got) != MaxLog || !strings.HasPrefix(got, "begin0123") || !strings.HasSuffix(got, "6789end") || full != 0 {
		t.Errorf("%d bytes, %q … %q, full %d", len(got), got[:20], got[len(got)-20:], full)
	}
	if _, err := l.Write(make([]byte, floodLog)); err == nil || full != 1 {
		t.Errorf("beyond floodLog: %v, full %d", err, full)
	}
	if _, err := l.Write([]byte("x")); err == nil || full != 1 {
		t.Errorf("after a failed write: %v, full %d", err, full)
	}
}

// TestCheck covers defaults and limits.
func TestCheck(t *testing.T) {
	l, err := Check(Program{})
	if err != nil || l.MemBytes != modules.DefaultMemory || l.TimeoutMS != 300 || l.OutputBytes != modules.DefaultOutput || l.MilliCPU != 1000 {
		t.Errorf("%+v, %v", l, err)
	}
	if err := Assets([]Asset{{Name: "img0"}, {Name: "a.b-c_D"}}); err != nil {
		t.Error(err)
	}
	for _, bad := range [][]Asset{{{Name: ""}}, {{Name: "a/b"}}, {{Name: ".."}}, {{Name: "a"}, {Name: "a"}}, {{Name: "a", Size: -1}}, {{Name: "a", Size: MaxAsset + 1}}, make([]Asset, MaxAssets+1)} {
		if err := Assets(bad); KindOf(err) != Args {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
