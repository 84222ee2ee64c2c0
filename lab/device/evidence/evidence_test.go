package evidence_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"mm-abi.org/mm/lab/device/evidence"
)

func digest(c byte) string { return "sha256:" + strings.Repeat(string(c), 64) }

func ptr[T any](v T) *T { return &v }

// complete returns a record as a device leaves it.
func complete() evidence.Record {
	soc := evidence.SoC{Model: 69, Name: "SM8750", Arch: 79}
	r := evidence.Record{
		Time: "2026-01-02T03:04:05Z", Nonce: "00112233",
		Source:  evidence.Source{Lane: "adb", Address: "127.0.0.1:5037", Serial: "R5", Tool: "mm 1.2.0"},
		Device:  evidence.Device{Manufacturer: "Maker", Model: "Phone", Android: "15", ABI: "arm64-v8a", Machine: "aarch64", SoC: "SM8750"},
		SoC:     soc,
		Runtime: evidence.Runtime{Runner: digest('a'), GoArch: "arm64", Build: "v2.47.0.260601114230"},
		Binary:  evidence.Binary{SHA256: digest('b'), Bytes: 1000, Build: "v2.47.0.260601114230", SoC: soc, Graph: "main"},
		Inputs:  []evidence.Tensor{{0, "x", "float32", 64, digest('1')}, {1, "x", "float32", 64, digest('2')}},
		Outputs: []evidence.Tensor{{0, "y", "float32", 32, digest('3')}, {1, "y", "float32", 32, digest('4')}},
		Samples: 2, Drawn: true,
		Reference: &evidence.Reference{Engine: "core/graph", Model: digest('c'),
			Outputs: []evidence.Tensor{{0, "y", "float32", 32, digest('5')}, {1, "y", "float32", 32, digest('6')}}},
		Cosine: ptr(0.99997), HVXThreads: ptr(4), FP16Grid: &evidence.Grid{Applies: true, Values: 16},
		Times: &evidence.Times{Load: 90000, Infer: 700, Inferences: 10},
		Signs: []string{},
	}
	for _, name := range evidence.Checks() {
		r.Checks = append(r.Checks, evidence.Check{Name: name, Outcome: evidence.Pass})
	}
	return r
}

// Each requirement is checked: each change fails the named verdict, and no changed record
// promotes.
func TestJudge(t *testing.T) {
	type change = func(*evidence.Record)
	for name, tc := range map[string]struct {
		change change
		fails  string // the first verdict that does not pass
		why    string
	}{
		"simulated":           {func(r *evidence.Record) { r.Simulated = true }, evidence.OnDevice, "marked as simulated"},
		"sign":                {func(r *evidence.Record) { r.Signs = []string{"ro.kernel.qemu"} }, evidence.OnDevice, "ro.kernel.qemu"},
		"PC runner":           {func(r *evidence.Record) { r.Runtime.GoArch = "amd64" }, evidence.OnDevice, "amd64"},
		"no architecture":     {func(r *evidence.Record) { r.Runtime.GoArch = "" }, evidence.OnDevice, "arm64"},
		"PC kernel":           {func(r *evidence.Record) { r.Device.Machine = "x86_64" }, evidence.OnDevice, "x86_64"},
		"emulation":           {func(r *evidence.Record) { r.SoC.Model, r.SoC.Arch, r.HVXThreads = 30, 68, ptr(0) }, evidence.OnDevice, "30/v68"},
		"emulation, no HVX":   {func(r *evidence.Record) { r.SoC.Model, r.SoC.Arch, r.HVXThreads = 30, 68, nil }, evidence.OnDevice, "30/v68"},
		"simulator build":     {func(r *evidence.Record) { r.Runtime.Build = "v0.0.0.mm-sim" }, evidence.OnDevice, "mm-sim"},
		"no lane":             {func(r *evidence.Record) { r.Source.Lane = "local" }, evidence.OnDevice, "local"},
		"different chip":      {func(r *evidence.Record) { r.SoC.Model, r.SoC.Name = 57, "SM8650" }, evidence.Chip, "differ"},
		"different device":    {func(r *evidence.Record) { r.Device.SoC = "SM8650" }, evidence.Chip, "differ"},
		"different number":    {func(r *evidence.Record) { r.SoC.Model = 57 }, evidence.Chip, "differ"},
		"no chip":             {func(r *evidence.Record) { r.Device.SoC = "" }, evidence.Chip, "not known"},
		"no platform":         {func(r *evidence.Record) { r.SoC = evidence.SoC{} }, evidence.Chip, "not known"},
		"binary for any chip": {func(r *evidence.Record) { r.Binary.SoC.Model = 0 }, evidence.Chip, "not known"},
		"different arch":      {func(r *evidence.Record) { r.SoC.Arch = 75 }, evidence.Arch, "differ"},
		"no arch":             {func(r *evidence.Record) { r.Binary.SoC.Arch = 0 }, evidence.Arch, "not known"},
		"no build":            {func(r *evidence.Record) { r.Runtime.Build = "" }, evidence.Versions, "not named"},
		"no runner":           {func(r *evidence.Record) { r.Runtime.Runner = "sha256:12" }, evidence.Versions, "not named"},
		"no time":             {func(r *evidence.Record) { r.Time = "" }, evidence.Versions, "not named"},
		"no digest":           {func(r *evidence.Record) { r.Outputs[1].SHA256 = "" }, evidence.Files, "not described"},
		"upper-case digest":   {func(r *evidence.Record) { r.Binary.SHA256 = digest('B') }, evidence.Files, "the binary"},
		"missing output":      {func(r *evidence.Record) { r.Outputs = r.Outputs[:1] }, evidence.Files, "1 names × 2"},
		"duplicate output":    {func(r *evidence.Record) { r.Outputs[1].Sample = 0 }, evidence.Files, "1 names × 2"},
		"no inputs":           {func(r *evidence.Record) { r.Inputs = nil }, evidence.Files, "no inputs"},
		"extra sample":        {func(r *evidence.Record) { r.Outputs[1].Sample = 2 }, evidence.Files, "not described"},
		"chosen inputs":       {func(r *evidence.Record) { r.Drawn = false }, evidence.Varied, "chosen"},
		"one sample":          {func(r *evidence.Record) { r.Samples, r.Inputs, r.Outputs = 1, r.Inputs[:1], r.Outputs[:1] }, evidence.Varied, "one sample"},
		"equal inputs":        {func(r *evidence.Record) { r.Inputs[1].SHA256 = digest('1') }, evidence.Varied, "same inputs"},
		"equal outputs":       {func(r *evidence.Record) { r.Outputs[1].SHA256 = digest('3') }, evidence.Varied, "same outputs"},
		"no reference":        {func(r *evidence.Record) { r.Reference = nil }, evidence.Compared, "no reference"},
		"no cosine":           {func(r *evidence.Record) { r.Cosine = nil }, evidence.Compared, "no cosine"},
		"low cosine":          {func(r *evidence.Record) { r.Cosine = ptr(0.98) }, evidence.Compared, "0.98"},
		"cosine above 1":      {func(r *evidence.Record) { r.Cosine = ptr(1.5) }, evidence.Compared, "1.5"},
		"self reference":      {func(r *evidence.Record) { r.Reference.Model = r.Binary.SHA256 }, evidence.Compared, "the binary itself"},
		"bit-exact":           {func(r *evidence.Record) { r.Reference.Outputs[0].SHA256 = digest('3') }, evidence.Compared, "bit-exact"},
		"wrong output":        {func(r *evidence.Record) { r.Reference.Outputs[0].Name = "z" }, evidence.Compared, `"z"`},
		"no HVX":              {func(r *evidence.Record) { r.HVXThreads = ptr(0) }, evidence.HVX, "no HVX thread"},
		"HVX not counted":     {func(r *evidence.Record) { r.HVXThreads = nil }, evidence.HVX, "not counted"},
		"off the grid":        {func(r *evidence.Record) { r.FP16Grid.Off, r.FP16Grid.MaxULP = 16, 1 }, evidence.Precision, "16 of 16"},
		"one off the grid":    {func(r *evidence.Record) { r.FP16Grid.Off = 1 }, evidence.Precision, "1 of 16"},
		"no grid":             {func(r *evidence.Record) { r.FP16Grid = nil }, evidence.Precision, "no float output"},
		"empty grid":          {func(r *evidence.Record) { r.FP16Grid.Values = 0 }, evidence.Precision, "no float output"},
		"grid not applied":    {func(r *evidence.Record) { r.FP16Grid.Applies = false }, evidence.Precision, "no float output"},
		"no times":            {func(r *evidence.Record) { r.Times = nil }, evidence.Timing, "not measured"},
		"load in the time":    {func(r *evidence.Record) { r.Times.Load = 0 }, evidence.Timing, "separate"},
		"missing check":       {func(r *evidence.Record) { r.Checks = r.Checks[1:] }, "check digest", "missing"},
		"exempt check":        {func(r *evidence.Record) { r.Checks[1].Outcome = evidence.Exempt }, "check count", "does not apply"},
		"failed check":        {func(r *evidence.Record) { r.Checks[6].Outcome = evidence.Fail }, "check fresh", "fail"},
		"failed and passed": {func(r *evidence.Record) {
			r.Checks = append(r.Checks, evidence.Check{Name: "count", Outcome: evidence.Fail})
		}, "check count", "fail"},
		"no outcome": {func(r *evidence.Record) { r.Checks[2].Outcome = "" }, "check size", ": "},
	} {
		t.Run(name, func(t *testing.T) {
			r := complete()
			tc.change(&r)
			if err := r.Seal(); err != nil {
				t.Fatal(err)
			}
			if soc, ok := evidence.Promotes(r); ok {
				t.Errorf("promotes %s", soc)
			}
			first := evidence.Verdict{}
			for _, v := range evidence.Judge(r) {
				if v.Reason == "" && !strings.HasPrefix(v.Name, "check ") {
					t.Errorf("%s: %s without a reason", v.Name, v.Outcome)
				}
				if v.Outcome != evidence.Pass && first.Name == "" {
					first = v
				}
			}
			if first.Name != tc.fails || !strings.Contains(first.Reason, tc.why) {
				t.Errorf("%+v, want %s with %q", first, tc.fails, tc.why)
			}
		})
	}
	r := complete()
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	if soc, ok := evidence.Promotes(r); !ok || soc != "SM8750" {
		t.Errorf("a complete record does not promote: %+v", evidence.Judge(r))
	}
	// Integers need no grid.
	for i := range r.Outputs {
		r.Outputs[i].DType = "ufixed8"
	}
	r.FP16Grid = nil
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	if _, ok := evidence.Promotes(r); !ok {
		t.Errorf("%+v", evidence.Judge(r))
	}
}

// An empty record passes nothing.
func TestEmpty(t *testing.T) {
	for _, v := range evidence.Judge(evidence.Record{}) {
		if v.Outcome == evidence.Pass || v.Outcome == evidence.Exempt {
			t.Errorf("%+v", v)
		}
	}
}

func TestSeal(t *testing.T) {
	r := complete()
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	back, err := evidence.Read(bytes.NewReader(text))
	if err != nil || back.Digest != r.Digest {
		t.Fatalf("%v", err)
	}
	for name, changed := range map[string]string{
		"value":         strings.Replace(string(text), "0.99997", "0.99998", 1),
		"simulated":     strings.Replace(string(text), `"simulated": false`, `"simulated": true`, 1),
		"digest":        strings.Replace(string(text), r.Digest, digest('0'), 1),
		"unknown key":   strings.Replace(string(text), `"nonce"`, `"events": 3, "nonce"`, 1),
		"trailing data": string(text) + "{}",
		"other schema":  strings.Replace(string(text), "evidence/1", "evidence/2", 1),
		"empty":         "",
	} {
		if changed == string(text) {
			t.Fatalf("%s: unchanged", name)
		}
		if _, err := evidence.Read(strings.NewReader(changed)); err == nil {
			t.Errorf("%s: read", name)
		}
	}
	_, err = evidence.Read(strings.NewReader(strings.Replace(string(text), "0.99997", "0.5", 1)))
	if !errors.Is(err, evidence.ErrChanged) {
		t.Errorf("%v", err)
	}
	unsealed := complete()
	if _, ok := evidence.Promotes(unsealed); ok {
		t.Error("unsealed record promotes")
	}
	r.Cosine = ptr(math.NaN())
	if err := r.Seal(); err == nil {
		t.Error("sealed NaN")
	}
}

// A record from before backends were named keeps its digest, and a backend cannot be added
// to it.
func TestBackend(t *testing.T) {
	r := complete()
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	if text, err := r.Canonical(); err != nil || bytes.Contains(text, []byte("backend")) {
		t.Errorf("%s, %v", text, err)
	}
	r.Runtime.Backend = evidence.QNNDirect
	if _, ok := evidence.Promotes(r); ok {
		t.Error("backend added to a record")
	}
}

func FuzzRead(f *testing.F) {
	r := complete()
	if err := r.Seal(); err != nil {
		f.Fatal(err)
	}
	text, _ := json.Marshal(r)
	f.Add(string(text))
	f.Add("{}")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := evidence.Read(strings.NewReader(s))
		evidence.Judge(r)
		if err != nil {
			return
		}
		again := r
		if err := again.Seal(); err != nil || again.Digest != r.Digest {
			t.Fatalf("%v, %s and %s", err, again.Digest, r.Digest)
		}
	})
}
