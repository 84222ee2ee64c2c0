package htp_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/onnx/htp"
)

// Old chips have no HTP, or none proven to compute in floats.
func TestLacks(t *testing.T) {
	for name, want := range map[string][2]string{
		"SM8250": {"has a DSP and no HTP", "has a DSP and no HTP"}, "SM8350": {"", "16-bit floats"}, "SM8450": {}, "SM8750": {},
	} {
		c, _ := htp.KnownChips().Named(name)
		for i, floats := range []bool{false, true} {
			why, hint := c.Lacks(floats)
			if (why == "") != (want[i] == "") || (why == "") != (hint == "") || !strings.Contains(why, want[i]) {
				t.Errorf("%s, floats %v: %q, %q", name, floats, why, hint)
			}
		}
	}
}

func TestKnown(t *testing.T) {
	chips := htp.KnownChips()
	for _, tc := range []struct {
		name  string
		model uint32
		arch  string
	}{{"SM8750", 69, "v79"}, {"sm8650", 57, "v75"}, {"SOC:43", 43, "v73"}, {"SM8850", 87, "v81"}, {"SC8480XP", 88, "v81"}, {"SM8350", 30, "v68"}} {
		c, ok := chips.Named(tc.name)
		if !ok || c.Model != tc.model || c.Arch.String() != tc.arch || c.Source == "" {
			t.Errorf("%s: %+v", tc.name, c)
		}
	}
	if c, ok := chips.Named("SM9999"); ok {
		t.Errorf("%+v", c)
	}
	if c, ok := chips.Numbered(0); ok {
		t.Errorf("%+v", c)
	}
	// A number has one architecture, or a context's chip would be ambiguous.
	arch := map[uint32]string{}
	for _, c := range chips {
		if a := arch[c.Model]; a != "" && a != c.Arch.String() {
			t.Errorf("model %d is %s and %s", c.Model, a, c.Arch)
		}
		arch[c.Model] = c.Arch.String()
	}
	if !chips.Has("QCM6490", 35) || !chips.Has("QCM6490", 93) || len(chips.Names(35)) != 2 {
		t.Error("the sources disagree about QCM6490, and the table does not show it")
	}
}

func TestFitRead(t *testing.T) {
	const head = "soc,model,arch,vtcm_mib,source\n"
	got, err := htp.ReadChips(strings.NewReader(head + "sm9000,120,v83,16,mine\nX,121,83,,mine\n"))
	if err != nil || len(got) != 2 || got[0].Name != "SM9000" || got[0].VTCM != 16<<20 || got[1].VTCM != 0 || got[1].Arch != 83 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "a,b\n", head + "X,0,79,8,m\n", head + ",5,79,8,m\n", head + "X,5,9,8,m\n", head + "X,5,79,-1,m\n", head + "X,5,79\n", head + strings.Repeat("X,5,79,8,m\n", 5000)} {
		if got, err := htp.ReadChips(strings.NewReader(bad)); err == nil {
			t.Errorf("%.40q: %d rows", bad, len(got))
		}
	}
}

func FuzzFitRead(f *testing.F) {
	f.Add("soc,model,arch,vtcm_mib,source\nsm9000,120,v83,16,mine\n")
	f.Fuzz(func(t *testing.T, s string) {
		chips, err := htp.ReadChips(strings.NewReader(s))
		for _, c := range chips {
			if err != nil || c.Name == "" || c.Model == 0 || c.Arch < 60 {
				t.Fatalf("%+v, %v", c, err)
			}
		}
	})
}
