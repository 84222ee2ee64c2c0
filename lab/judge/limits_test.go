package judge_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mm-abi.org/mm/lab/judge"
	"mm-abi.org/mm/onnx/htp"
)

// Each size limit is accepted, and one more is refused.
func TestSizeLimits(t *testing.T) {
	file := func(name, text string, size int) string {
		path := filepath.Join(t.TempDir(), name)
		b := append([]byte(text), slices.Repeat([]byte(" "), size-len(text))...)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	b, err := readBoundary(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	note := file("README.md", text, len(text))
	for name, try := range map[string]func(over int) error{
		"MaxEvidence": func(over int) error {
			_, err := judge.ReadEvidence(file("e.json", "{}", judge.MaxEvidence+over))
			return err
		},
		"MaxText": func(over int) error {
			_, err := b.Scan(file("README.md", text+"\nno", judge.MaxText+over)) // a negation ends the search of a line
			return err
		},
		"MaxTexts": func(over int) error {
			_, err := b.Scan(slices.Repeat([]string{note}, judge.MaxTexts+over)...)
			return err
		},
		"MaxFile": func(over int) error {
			_, err := judge.ReadEnvelope(filepath.Dir(file(judge.MemoryFile, "", judge.MaxFile+over)), htp.KnownChips())
			return err
		},
	} {
		if err := try(0); err != nil {
			t.Errorf("%s: at the limit: %v", name, err)
		}
		if try(1) == nil {
			t.Errorf("%s: accepted above the limit", name)
		}
	}
}

// Each threshold of a falsifier passes, and the next value does not.
func TestThresholds(t *testing.T) {
	cosines := func(total, low float64) string {
		return fmt.Sprintf(`{"cosine_total":[%v],"cosine_p5":[%v],"outputs_expected":1}`, total, low)
	}
	surface := func(c float64) string {
		return fmt.Sprintf(`{"surface_c":%v,"dew_c":%v,"dew_rise_c_per_min":0}`, c, judge.MinCelsius)
	}
	for _, tc := range []struct {
		name, id, in, out string
		want              judge.Result
	}{
		{"MinDelegate", "qnn_unsupported_op", fmt.Sprintf(`{"delegate_share":%v}`, judge.MinDelegate), `{"delegate_share":0.499}`, judge.Fail},
		{"MaxFertility", "tokenizer_fertility_high", fmt.Sprintf(`{"fertility_ratios":{"x":%v}}`, judge.MaxFertility), `{"fertility_ratios":{"x":2.501}}`, judge.Fail},
		{"MinCosine", "phase_1aa0_cosine_validation", cosines(judge.MinCosine, 0.99), cosines(judge.MinCosine-0.001, 0.99), judge.Fail},
		{"MinLowCosine", "phase_1aa0_cosine_validation", cosines(1, judge.MinLowCosine), cosines(1, judge.MinLowCosine-0.001), judge.Fail},
		{"MaxCosine", "phase_1aa0_cosine_validation", cosines(judge.MaxCosine, judge.MaxCosine), cosines(judge.MaxCosine+1e-9, 1), judge.Blocked},
		{"MaxSameness", "binary_holds_meaningful_weights", `{"cosine_between_inputs":0.9989,"source_weights_sha256":"` + hash + `"}`,
			fmt.Sprintf(`{"cosine_between_inputs":%v,"source_weights_sha256":"`+hash+`"}`, judge.MaxSameness), judge.Fail},
		{"MaxCelsius", "condensation_risk", surface(judge.MaxCelsius), surface(judge.MaxCelsius + 0.1), judge.Blocked},
		{"MinCelsius", "condensation_risk", surface(judge.MinCelsius + 3), surface(judge.MinCelsius - 0.1), judge.Blocked},
	} {
		for text, want := range map[string]judge.Result{tc.in: judge.Pass, tc.out: tc.want} {
			r, err := judge.Falsify(evidence(t, text), judge.Selection{Only: []string{tc.id}})
			if err != nil || r.Findings[0].Result != want {
				t.Errorf("%s: %s: %+v, %v, want %s", tc.name, text, r.Findings, err, want)
			}
		}
	}
}

// The limits of a manifest and of a chip's cosine.
func TestShares(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*judge.Manifest)
		ok     bool
	}{
		"MaxDamage":       {func(m *judge.Manifest) { m.Sources[1].OCR.Damage = judge.MaxDamage }, true},
		"above MaxDamage": {func(m *judge.Manifest) { m.Sources[1].OCR.Damage = judge.MaxDamage + 0.001 }, false},
		"Tolerance":       {func(m *judge.Manifest) { m.Languages["en"] += judge.Tolerance * 0.99 }, true},
		"above Tolerance": {func(m *judge.Manifest) { m.Languages["en"] += judge.Tolerance * 1.01 }, false},
		"Drift": {func(m *judge.Manifest) {
			m.Sources[0].Tokens, m.Sources[1].Tokens = 1000*(0.5-judge.Drift)+1, 1000*(0.5+judge.Drift)-1
		}, true},
		"above Drift": {func(m *judge.Manifest) {
			m.Sources[0].Tokens, m.Sources[1].Tokens = 1000*(0.5-judge.Drift)-1, 1000*(0.5+judge.Drift)+1
		}, false},
	} {
		m := manifest()
		tc.change(&m)
		if a := m.Audit(); a.OK != tc.ok {
			t.Errorf("%s: %+v", name, a)
		}
	}
	for cosine, stage := range map[float64]string{judge.MinChip: judge.Measured, judge.MinChip - 0.001: judge.Unfounded} {
		r := complete()
		r.Cosine = &cosine
		if table, err := judge.MakeTable([]judge.Record{r}); err != nil || table.Rows[0].Stage != stage {
			t.Errorf("cosine %v: %+v, %v", cosine, table, err)
		}
	}
}
