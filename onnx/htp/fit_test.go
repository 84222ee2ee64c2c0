package htp_test

import (
	"math"
	"strings"
	"testing"

	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/htptest"
)

// complete is a target without unknown values.
func complete(t testing.TB, name string) htp.Target {
	t.Helper()
	target, err := htp.ParseTarget(name, htp.KnownChips())
	if err != nil {
		t.Fatal(err)
	}
	target.Memory = 1 << 30
	target.Libs = &htp.Libraries{Dir: "lib", HTP: true, System: true, Stubs: []htp.Arch{73, 75, 79}, Skels: []htp.Arch{73, 75, 79}, Build: "v2.47.0.260601114230", Builds: 1}
	return target
}

// Check reports exactly the axes that do not fit.
func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		target string
		file   func(*htp.Context)
		on     func(*htp.Target)
		want   map[string]htp.Verdict // the axes that do not fit; all others do
		why    string
	}{
		"all":                   {target: "SM8750@2.47"},
		"by number":             {target: "soc:69@2.47.0"},
		"a newer runtime":       {target: "SM8750@2.51", on: func(x *htp.Target) { x.Libs.Build = "v2.51.0.260929181845" }},
		"one that no table has": {target: "SM8750@2.50", on: func(x *htp.Target) { x.Libs.Build = "v2.50.0.260828000000" }, want: map[string]htp.Verdict{htp.AxisSystem: htp.Unknown}, why: "does not have both"},
		"an older runtime":      {target: "SM8750@2.40", on: func(x *htp.Target) { x.Libs.Build = "v2.40.0.251030000000" }, want: map[string]htp.Verdict{htp.AxisSDK: htp.Not, htp.AxisCore: htp.Not, htp.AxisBack: htp.Not, htp.AxisSystem: htp.Unknown}, why: "error 5000"},
		"an older system":       {target: "SM8750@2.44", on: func(x *htp.Target) { x.Libs.Build = "v2.44.0.260225000000" }, want: map[string]htp.Verdict{htp.AxisSDK: htp.Not, htp.AxisCore: htp.Unknown, htp.AxisBack: htp.Not, htp.AxisSystem: htp.Not}, why: "libQnnSystem is older"},
		"SDK 3":                 {target: "SM8750@3.1", on: func(x *htp.Target) { x.Libs.Build = "v3.1.0.260225000000" }, want: map[string]htp.Verdict{htp.AxisSDK: htp.Not, htp.AxisCore: htp.Unknown, htp.AxisBack: htp.Unknown, htp.AxisSystem: htp.Unknown}, why: "another major"},
		"no SDK named":          {target: "SM8750", want: map[string]htp.Verdict{htp.AxisSDK: htp.Unknown, htp.AxisCore: htp.Unknown, htp.AxisBack: htp.Unknown, htp.AxisSystem: htp.Unknown, htp.AxisSkel: htp.Unknown}, why: "the target names no SDK"},
		"another architecture":  {target: "SM8650@2.47", want: map[string]htp.Verdict{htp.AxisArch: htp.Not, htp.AxisSoC: htp.Not}, why: "runs on the architecture"},
		"a DSP": {target: "SM8250@2.47", file: func(c *htp.Context) { c.SoC, c.Arch = 21, 66 },
			want: map[string]htp.Verdict{htp.AxisArch: htp.Not, htp.AxisSkel: htp.Not, htp.AxisVTCM: htp.Unknown}, why: "has a DSP and no HTP"},
		"another chip":                {target: "SXR2330P@2.47", want: map[string]htp.Verdict{htp.AxisSoC: htp.Not}, why: "compiled for another chip"},
		"of the same architecture":    {target: "SXR2330P@2.47", on: func(x *htp.Target) { x.SameArch = true }},
		"an architecture":             {target: "v79@2.47", want: map[string]htp.Verdict{htp.AxisSoC: htp.Unknown, htp.AxisVTCM: htp.Unknown}, why: "an architecture, not a chip"},
		"an architecture, taken":      {target: "v79@2.47", on: func(x *htp.Target) { x.SameArch = true }, want: map[string]htp.Verdict{htp.AxisVTCM: htp.Unknown}},
		"an unknown chip":             {target: "SM9999@2.47", want: map[string]htp.Verdict{htp.AxisArch: htp.Unknown, htp.AxisSoC: htp.Unknown, htp.AxisVTCM: htp.Unknown, htp.AxisSkel: htp.Unknown}, why: "no chip of that name"},
		"a file without a chip":       {target: "SM8750@2.47", file: func(c *htp.Context) { c.SoC, c.Arch = 0, 0 }, want: map[string]htp.Verdict{htp.AxisArch: htp.Unknown, htp.AxisSoC: htp.Unknown}, why: "no architecture and no chip"},
		"an architecture by its chip": {target: "SM8750@2.47", file: func(c *htp.Context) { c.Arch = 0 }},
		"chip against architecture":   {target: "SM8750@2.47", file: func(c *htp.Context) { c.Arch = 75 }, want: map[string]htp.Verdict{htp.AxisArch: htp.Unknown}, why: "contradicts the table"},
		"build against interface":     {target: "SM8750@2.47", file: func(c *htp.Context) { c.Build = "v2.40.0.251030000000" }, want: map[string]htp.Verdict{htp.AxisSDK: htp.Unknown, htp.AxisSystem: htp.Unknown}, why: "contradicts itself"},
		"no build":                    {target: "SM8750@2.47", file: func(c *htp.Context) { c.Build = "" }, want: map[string]htp.Verdict{htp.AxisSDK: htp.Unknown, htp.AxisSystem: htp.Unknown}, why: "name its SDK"},
		"another core":                {target: "SM8750@2.47", file: func(c *htp.Context) { c.Core.Major = 3 }, want: map[string]htp.Verdict{htp.AxisCore: htp.Not}, why: "another major"},
		"of the processor":            {target: "SM8750@2.47", file: func(c *htp.Context) { c.Backend, c.API = htp.CPU, htp.Version{Major: 1, Minor: 1} }, want: map[string]htp.Verdict{htp.AxisBackend: htp.Not, htp.AxisBack: htp.Not}, why: "another library"},
		"no libraries":                {target: "SM8750@2.47", on: func(x *htp.Target) { x.Libs = nil }, want: map[string]htp.Verdict{htp.AxisSkel: htp.Unasked}, why: "--libs"},
		"a skel missing":              {target: "SM8750@2.47", on: func(x *htp.Target) { x.Libs.Skels = []htp.Arch{75} }, want: map[string]htp.Verdict{htp.AxisSkel: htp.Not}, why: "missing: libQnnHtpV79Skel"},
		"a stub missing":              {target: "SM8750@2.47", on: func(x *htp.Target) { x.Libs.Stubs = nil }, want: map[string]htp.Verdict{htp.AxisSkel: htp.Not}, why: "missing: libQnnHtpV79Stub"},
		"libraries of another build":  {target: "SM8750@2.47", on: func(x *htp.Target) { x.Libs.Build = "v2.46.0.260424000000" }, want: map[string]htp.Verdict{htp.AxisSkel: htp.Not}, why: "another release"},
		"libraries without a build":   {target: "SM8750@2.47", on: func(x *htp.Target) { x.Libs.Build = "" }, want: map[string]htp.Verdict{htp.AxisSkel: htp.Unknown}, why: "name its build"},
		"no memory limit":             {target: "SM8750@2.47", on: func(x *htp.Target) { x.Memory = 0 }, want: map[string]htp.Verdict{htp.AxisMemory: htp.Unasked}, why: "memory limit"},
		"too little memory":           {target: "SM8750@2.47", on: func(x *htp.Target) { x.Memory = 20 << 10 }, want: map[string]htp.Verdict{htp.AxisMemory: htp.Not}, why: "into the target's memory"},
		"memory beyond all":           {target: "SM8750@2.47", file: func(c *htp.Context) { c.Graphs[0].Memory.DDR = math.MaxUint64 }, want: map[string]htp.Verdict{htp.AxisMemory: htp.Not}, why: "is impossible"},
		"too much VTCM":               {target: "SM8750@2.47", file: func(c *htp.Context) { c.Graphs[0].Memory.VTCM = 16 << 20 }, want: map[string]htp.Verdict{htp.AxisVTCM: htp.Not}, why: "more VTCM"},
		"no VTCM":                     {target: "SM8750@2.47", file: func(c *htp.Context) { c.Graphs[0].Memory = nil }, want: map[string]htp.Verdict{htp.AxisVTCM: htp.Unknown}, why: "does not state"},
		"a dynamic dimension":         {target: "SM8750@2.47", file: func(c *htp.Context) { c.Graphs[0].Inputs[0].Dynamic = []bool{true, false} }, want: map[string]htp.Verdict{htp.AxisDType: htp.Not}, why: "dynamic dimension"},
		"a dimension of 0":            {target: "SM8750@2.47", file: func(c *htp.Context) { c.Graphs[0].Inputs[0].Dims = []uint32{0, 4} }, want: map[string]htp.Verdict{htp.AxisDType: htp.Not}, why: "dynamic dimension"},
		"an unknown type":             {target: "SM8750@2.47", file: func(c *htp.Context) { c.Graphs[0].Inputs[0].DType = 0x777 }, want: map[string]htp.Verdict{htp.AxisDType: htp.Unknown}, why: "0x0777"},
		"a tensor of version 3":       {target: "SM8750@2.47", file: func(c *htp.Context) { c.Graphs[0].Inputs[0].Version = 3 }, want: map[string]htp.Verdict{htp.AxisDType: htp.Unknown}, why: "unknown version 3"},
		"a tensor beyond all":         {target: "SM8750@2.47", file: func(c *htp.Context) { c.Graphs[0].Inputs[0].Dims = []uint32{1 << 31, 1 << 31, 4} }, want: map[string]htp.Verdict{htp.AxisDType: htp.Not}, why: "larger than any memory"},
		"a scale of 0": {target: "SM8750@2.47", file: func(c *htp.Context) {
			c.Graphs[0].Inputs[0].Quant = htp.Quantization{Scales: []float32{0}, Offsets: []int32{0}}
		}, want: map[string]htp.Verdict{htp.AxisDType: htp.Not}, why: "has the scale 0"},
		"an unknown encoding": {target: "SM8750@2.47", file: func(c *htp.Context) { c.Graphs[0].Inputs[0].Quant = htp.Quantization{Encoding: 5} }, want: map[string]htp.Verdict{htp.AxisDType: htp.Unknown}, why: "encoding 5"},
		"no graph":            {target: "SM8750@2.47", file: func(c *htp.Context) { c.Graphs = nil }, want: map[string]htp.Verdict{htp.AxisDType: htp.Not, htp.AxisVTCM: htp.Unknown}, why: "no graph"},
	} {
		t.Run(name, func(t *testing.T) {
			c := htptest.Sample()
			c.Size = 10000
			if tc.file != nil {
				tc.file(&c)
			}
			target := complete(t, tc.target)
			if tc.on != nil {
				tc.on(&target)
			}
			why := ""
			for i, a := range htp.Check(&c, target) {
				want := tc.want[a.Name]
				if want == "" {
					want = htp.Fits
				}
				if a.Verdict != want {
					t.Errorf("%s: %s, want %s: %q, %q, %s", a.Name, a.Verdict, want, a.File, a.Target, a.Why)
				}
				if a.Name != htp.Axes()[i] {
					t.Errorf("axis %d is %s, not %s", i, a.Name, htp.Axes()[i])
				}
				if a.Verdict != htp.Fits && (a.Why == "" || a.Hint == "") {
					t.Errorf("%s: %s without a reason or a way out: %+v", a.Name, a.Verdict, a)
				}
				why += a.Why + "; " + a.Hint + "\n"
			}
			if !strings.Contains(why, tc.why) {
				t.Errorf("no %q in %s", tc.why, why)
			}
		})
	}
}

// A context with unread metadata has unknown axes only.
func TestUnread(t *testing.T) {
	for _, a := range htp.Check(&htp.Context{Unread: "schema 9"}, complete(t, "SM8750@2.47")) {
		if a.Verdict != htp.Unknown {
			t.Errorf("%+v", a)
		}
	}
}

func TestParseTarget(t *testing.T) {
	for _, bad := range []string{"", "@2.47", "SM8750@", "SM8750@2", "SM8750@2.x", "SM8750@2.47@1"} {
		if got, err := htp.ParseTarget(bad, htp.KnownChips()); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
	got, err := htp.ParseTarget("sm8750@v2.47.0.260601114230", htp.KnownChips())
	if err != nil || got.Chip == nil || got.Chip.Model != 69 || *got.SDK != (htp.Version{Major: 2, Minor: 47}) {
		t.Errorf("%+v, %v", got, err)
	}
}
