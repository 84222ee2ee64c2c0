package judge_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/lab/judge"
)

func evidence(t testing.TB, text string) judge.Evidence {
	t.Helper()
	var e judge.Evidence
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

var hash = strings.Repeat("a", 64)

// row is a row of the truth table that proves a compile path.
const row = `"model":"qwen","scope":"a","target":"SM8750/fp16","backend":"litert_qnn","result":"ok","delegate_share":1,"layers":[0,1],"model_layers":28,"engine":"litert 2.1","cosine":0.999,"stage":"measured"`

// records returns compile_records evidence, a row for each change. Of rows for the same
// cell the last counts.
func records(row string, changes ...string) string {
	var rows []json.RawMessage
	for _, c := range changes {
		m := map[string]any{"artifact_sha256": hash, "weights_sha256": hash, "device_record_sha256": hash}
		for _, text := range []string{row, c} {
			if err := json.Unmarshal([]byte("{"+text+"}"), &m); err != nil {
				panic(err)
			}
		}
		text, _ := json.Marshal(m)
		rows = append(rows, text)
	}
	text, _ := json.Marshal(map[string]any{"compile_records": rows})
	return string(text)
}

// Impossible values never pass.
func TestImpossible(t *testing.T) {
	for id, texts := range map[string][]string{
		"oom_or_memory_pressure":                  {`{"oom":false,"peak_ram_gb":-5}`},
		"method_disagreement_high":                {`{"spearman_rho":7}`},
		"cross_model_disagreement_high":           {`{"disagreement":-0.1}`},
		"ocr_damage_high":                         {`{"ocr_damage":-3}`},
		"binary_holds_meaningful_weights":         {`{"cosine_between_inputs":-40,"source_weights_sha256":"` + hash + `"}`},
		"phase_1aa0_cosine_validation":            {`{"cosine_total":[1,1,40],"cosine_p5":[1,1,1],"outputs_expected":3}`, `{"cosine_total":[1],"cosine_p5":[7],"outputs_expected":1}`},
		"thermal_throttle":                        {`{"gpu_clock_below_600_share":-1}`},
		"thermal_throttling_under_sustained_load": {`{"latency_first_hour_p50_ms":10,"latency_last_hour_p50_ms":-1}`},
		"battery_heat_risk":                       {temperatureSamples(-500, 0, 60)},
		"battery_drain_exceeds_safe_envelope":     {`{"battery_pct_per_hour":-9999}`},
		"charge_bypass_unproven":                  {`{"battery_pct_drift_per_hour":1e300}`},
		"energy_budget_exceeded":                  {`{"joule_per_token":-1,"joule_per_token_baseline":1,"quality_gain":0}`, `{"joule_per_token":9,"joule_per_token_baseline":1,"quality_gain":1e9}`},
		"catastrophic_forgetting":                 {`{"english_anchor_drop_pp":-101}`},
		"condensation_risk":                       {`{"surface_c":1000,"dew_c":22,"dew_rise_c_per_min":1}`},
		"wifi_silent":                             {`{"minutes_since_push":-1}`},
		"screen_off_violation":                    {`{"screen_on_count":-1}`},
		"throughput_floor_fail":                   {`{"tokens_per_hour":-1}`},
		"qnn_unsupported_op":                      {`{"delegate_share":2}`},
	} {
		for _, text := range texts {
			r, err := judge.Falsify(evidence(t, text), judge.Selection{Only: []string{id}})
			if err != nil || r.Overall != judge.Blocked {
				t.Errorf("%s: %s: %+v, %v", id, text, r, err)
			}
		}
	}
}

// cases holds for each falsifier evidence that passes and evidence that does not.
var cases = map[string]struct {
	pass string
	not  map[string]judge.Result
}{
	"device_soc_mismatch": {`{"soc_reported":"SM8750","soc_target":"sm8750"}`, map[string]judge.Result{
		`{"soc_reported":"SM8650","soc_target":"SM8750"}`: "fail", `{"soc_reported":"","soc_target":""}`: "fail"}},
	"phone_not_attached": {`{"phone_attached":true}`, map[string]judge.Result{`{"phone_attached":false}`: "blocked", `{}`: "blocked"}},
	"qnn_exact_path_unproven": {records(row, `"scope":"b","result":"failed"`, ``), map[string]judge.Result{
		`{"compile_records":[]}`: "blocked", `{"compile_records":[{"result":"ok","stage":"measured"}]}`: "blocked", `{}`: "blocked",
		records(row, `"backend":"qnn (emulated)"`): "blocked", records(row, `"simulated":true`): "blocked", records(row, `"backend":"host_sim"`): "blocked",
		records(row, `"device_record_sha256":""`): "blocked", records(row, `"target":"onnx","backend":"host"`): "blocked",
		records(row, `"artifact_sha256":"`+strings.Repeat("0", 64)+`"`): "blocked", records(row, ``, `"result":"failed"`): "blocked"}},
	"qnn_unsupported_op":                     {`{"delegate_share":0.5}`, map[string]judge.Result{`{"delegate_share":0.49}`: "fail", `{"delegate_share":1.5}`: "blocked"}},
	"qnn_runtime_silently_falls_back_to_cpu": {`{"npu_shown_by":["timing","fp16_grid"]}`, map[string]judge.Result{`{"npu_shown_by":["timing","profile"]}`: "fail", `{"npu_shown_by":[]}`: "fail"}},
	"phase_1a_inference_unproven":            {`{"inferences_measured":1}`, map[string]judge.Result{`{"inferences_measured":0}`: "blocked", `{}`: "blocked"}},
	"smollm3_export_unproven":                {`{"experiment_2_status":"pass"}`, map[string]judge.Result{`{"experiment_2_status":"skipped"}`: "blocked"}},
	"phase_1aa0_cosine_validation": {`{"cosine_total":[0.98,0.99,1],"cosine_p5":[0.95,0.96,0.97],"outputs_expected":3}`, map[string]judge.Result{
		`{"cosine_total":[0.9,0.989,1],"cosine_p5":[0.96,0.96,0.97],"outputs_expected":3}`: "fail",
		`{"cosine_total":[0.99,0.99,1],"cosine_p5":[0.94,0.96,0.97],"outputs_expected":3}`: "fail",
		`{"cosine_total":[0.99,1],"cosine_p5":[0.96,0.97],"outputs_expected":3}`:           "fail",
		`{"cosine_total":[],"cosine_p5":[],"outputs_expected":0}`:                          "fail"}},
	"binary_holds_meaningful_weights": {`{"cosine_between_inputs":0.7,"source_weights_sha256":"sha256:` + hash + `"}`, map[string]judge.Result{
		`{"cosine_between_inputs":0.999,"source_weights_sha256":"sha256:` + hash + `"}`: "fail", `{"cosine_between_inputs":0.7,"source_weights_sha256":"unknown"}`: "fail",
		`{"cosine_between_inputs":0.7,"source_weights_sha256":"` + strings.Repeat("z", 64) + `"}`: "fail", `{"cosine_between_inputs":0.7,"source_weights_sha256":"` + strings.Repeat("0", 64) + `"}`: "fail"}},
	"oom_or_memory_pressure":                  {`{"oom":false,"peak_ram_gb":19.9}`, map[string]judge.Result{`{"oom":true,"peak_ram_gb":3}`: "fail", `{"oom":false,"peak_ram_gb":22}`: "fail", `{"oom":false,"peak_ram_gb":20}`: "warn"}},
	"thermal_throttle":                        {`{"gpu_clock_below_600_share":0.10}`, map[string]judge.Result{`{"gpu_clock_below_600_share":0.11}`: "fail"}},
	"thermal_throttling_under_sustained_load": {`{"latency_first_hour_p50_ms":10,"latency_last_hour_p50_ms":12}`, map[string]judge.Result{`{"latency_first_hour_p50_ms":10,"latency_last_hour_p50_ms":12.1}`: "fail", `{"latency_first_hour_p50_ms":0,"latency_last_hour_p50_ms":0}`: "fail"}},
	"battery_heat_risk": {temperatureSamples(42, 0, 58), map[string]judge.Result{
		temperatureSamples(42, 0, 30, 60, 90): "fail", temperatureSamples(40, 0, 60, 120, 180, 240, 300): "fail", `{"battery_heat":[]}`: "blocked",
		`{"battery_heat":[{"time":"yesterday","c":20},{"time":"today","c":20}]}`: "blocked"}},
	"battery_drain_exceeds_safe_envelope": {`{"battery_pct_per_hour":20}`, map[string]judge.Result{`{"battery_pct_per_hour":20.1}`: "fail"}},
	"charge_bypass_unproven":              {`{"battery_pct_drift_per_hour":-2}`, map[string]judge.Result{`{"battery_pct_drift_per_hour":2.1}`: "fail", `{"battery_pct_drift_per_hour":-2.1}`: "fail"}},
	"throughput_floor_fail":               {`{"tokens_per_hour":500000}`, map[string]judge.Result{`{"tokens_per_hour":499999}`: "warn", `{"tokens_per_hour":99999}`: "fail"}},
	"energy_budget_exceeded": {`{"joule_per_token":1.2,"joule_per_token_baseline":1,"quality_gain":0}`, map[string]judge.Result{
		`{"joule_per_token":1.3,"joule_per_token_baseline":1,"quality_gain":0}`: "fail"}},
	"silent_output_corruption_under_load": {`{"outputs_of_one_input":["a","a"]}`, map[string]judge.Result{`{"outputs_of_one_input":["a","b","a"]}`: "fail", `{"outputs_of_one_input":["a"]}`: "fail", `{"outputs_of_one_input":["",""]}`: "fail"}},
	"checkpoint_hash_mismatch": {`{"checkpoint_sha256":"` + hash + `","checkpoint_sha256_expected":"` + hash + `"}`, map[string]judge.Result{
		`{"checkpoint_sha256":"a","checkpoint_sha256_expected":"a"}`: "fail", `{"checkpoint_sha256":"` + hash + `","checkpoint_sha256_expected":"b"}`: "fail", `{"checkpoint_sha256":"","checkpoint_sha256_expected":""}`: "fail"}},
	"catastrophic_forgetting":       {`{"english_anchor_drop_pp":1}`, map[string]judge.Result{`{"english_anchor_drop_pp":1.1}`: "fail"}},
	"cross_model_disagreement_high": {`{"disagreement":0.3}`, map[string]judge.Result{`{"disagreement":0.31}`: "warn"}},
	"method_disagreement_high":      {`{"spearman_rho":0.6}`, map[string]judge.Result{`{"spearman_rho":0.59}`: "warn"}},
	"overclaim":                     {`{"unsupported_claims":[]}`, map[string]judge.Result{`{"unsupported_claims":["fastest"]}`: "fail"}},
	"phase_module_missing":          {`{"phase_modules_missing":[]}`, map[string]judge.Result{`{"phase_modules_missing":["0B"]}`: "fail"}},
	"boundary_violation":            {`{"scan_failures":[]}`, map[string]judge.Result{`{"scan_failures":["README.md"]}`: "fail"}},
	"license_drift": {`{"license_classes":["A","C"],"sources_without_class":0}`, map[string]judge.Result{
		`{"license_classes":["A","D"],"sources_without_class":0}`: "fail", `{"license_classes":["A"],"sources_without_class":1}`: "fail", `{"license_classes":[],"sources_without_class":0}`: "fail"}},
	"ocr_damage_high":          {`{"ocr_damage":0.3}`, map[string]judge.Result{`{"ocr_damage":0.31}`: "fail"}},
	"tokenizer_fertility_high": {`{"fertility_ratios":{"deu":1.6,"x":2.5}}`, map[string]judge.Result{`{"fertility_ratios":{"deu":1.6,"zul":2.68}}`: "fail", `{"fertility_ratios":{}}`: "fail"}},
	"condensation_risk": {`{"surface_c":25,"dew_c":22,"dew_rise_c_per_min":1}`, map[string]judge.Result{
		`{"surface_c":22,"dew_c":22,"dew_rise_c_per_min":0}`: "fail", `{"surface_c":24,"dew_c":22,"dew_rise_c_per_min":0.6}`: "warn"}},
	"wifi_silent":          {`{"minutes_since_push":30}`, map[string]judge.Result{`{"minutes_since_push":31}`: "warn"}},
	"fan_silent":           {`{"fan_state":"on","fan_rpm":900}`, map[string]judge.Result{`{"fan_state":"silent","fan_rpm":900}`: "fail", `{"fan_state":"on","fan_rpm":0}`: "fail"}},
	"screen_off_violation": {`{"screen_on_count":0}`, map[string]judge.Result{`{"screen_on_count":1}`: "warn"}},
}

// temperatureSamples returns battery temperatures at the given seconds, and a cool one a
// second later.
func temperatureSamples(c float64, seconds ...int) string {
	var rows []map[string]any
	for _, s := range append(seconds, seconds[len(seconds)-1]+1) {
		rows = append(rows, map[string]any{"time": time(s), "c": c})
	}
	rows[len(rows)-1]["c"] = 20
	text, _ := json.Marshal(map[string]any{"battery_heat": rows})
	return string(text)
}

func time(s int) string {
	return "2026-01-01T00:" + string([]byte{'0' + byte(s/600), '0' + byte(s/60%10), ':', '0' + byte(s%60/10), '0' + byte(s%10)}) + "Z"
}

// Every falsifier passes its good case, refuses its bad ones, and passes neither empty nor
// malformed evidence.
func TestCases(t *testing.T) {
	for _, f := range judge.Falsifiers() {
		c, ok := cases[f.ID]
		if !ok {
			t.Errorf("%s has no case", f.ID)
			continue
		}
		run := func(text string) judge.Finding {
			t.Helper()
			r, err := judge.Falsify(evidence(t, text), judge.Selection{Only: []string{f.ID}})
			if err != nil || len(r.Findings) != 1 {
				t.Fatalf("%s: %+v, %v", f.ID, r, err)
			}
			if passed := r.Overall == judge.Pass; passed != (r.Findings[0].Result == judge.Pass) {
				t.Errorf("%s: overall %s, %+v", f.ID, r.Overall, r.Findings[0])
			}
			return r.Findings[0]
		}
		if got := run(c.pass); got.Result != judge.Pass || got.Blocking || got.Response != "" {
			t.Errorf("%s: %s: %+v", f.ID, c.pass, got)
		}
		for text, want := range c.not {
			got := run(text)
			if got.Result != want || got.Blocking != (!f.Advisory && (want == "fail" || want == "blocked")) || got.Response == "" {
				t.Errorf("%s: %s: %+v, want %s", f.ID, text, got, want)
			}
		}
		if len(c.not) == 0 || f.Rule == "" || f.Response == "" || len(f.Gates) == 0 {
			t.Errorf("%s is incomplete", f.ID)
		}
		if got := run(`{}`).Result; got != judge.Skip && got != judge.Blocked {
			t.Errorf("%s: empty evidence: %s", f.ID, got)
		}
		// Each value in turn missing or of the wrong type.
		for key := range evidence(t, c.pass) {
			e := evidence(t, c.pass)
			delete(e, key)
			text, _ := json.Marshal(e)
			if got := run(string(text)).Result; got != judge.Skip && got != judge.Blocked {
				t.Errorf("%s without %s: %s", f.ID, key, got)
			}
			e[key] = json.RawMessage(`{"a":[1]}`)
			text, _ = json.Marshal(e)
			if got := run(string(text)).Result; got != judge.Blocked && f.ID != "tokenizer_fertility_high" || got == judge.Pass {
				t.Errorf("%s with a malformed %s: %s", f.ID, key, got)
			}
		}
	}
}

func TestFalsify(t *testing.T) {
	all := judge.Evidence{}
	for _, c := range cases {
		for k, v := range evidence(t, c.pass) {
			all[k] = v
		}
	}
	r, err := judge.Falsify(all, judge.Selection{})
	if err != nil || r.Overall != judge.Pass || r.Counts[judge.Pass] != len(cases) {
		t.Errorf("%+v, %v", r, err)
	}
	delete(all, "ocr_damage")
	if r, _ = judge.Falsify(all, judge.Selection{}); r.Overall != judge.Skip {
		t.Errorf("one skipped: %s", r.Overall)
	}
	all["disagreement"] = json.RawMessage("1")
	if r, _ = judge.Falsify(all, judge.Selection{Only: []string{"cross_model_disagreement_high"}}); r.Overall != judge.Warn {
		t.Errorf("one warning: %s", r.Overall)
	}
	all["oom"] = json.RawMessage("true")
	if r, _ = judge.Falsify(all, judge.Selection{Gate: "0E"}); r.Overall != judge.Blocked {
		t.Errorf("one failure: %s", r.Overall)
	}
	if r, _ = judge.Falsify(all, judge.Selection{Gate: "0F"}); r.Overall != judge.Pass || len(r.Findings) != 1 {
		t.Errorf("0F: %+v", r)
	}
	for _, opt := range []judge.Selection{{Gate: "9Z"}, {Only: []string{"no_such"}}} {
		if r, err := judge.Falsify(all, opt); err == nil {
			t.Errorf("%+v: %+v", opt, r)
		}
	}
}

func FuzzReadEvidence(f *testing.F) {
	for _, c := range cases {
		f.Add(c.pass)
	}
	f.Add(`{"oom":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "e.json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		e, err := judge.ReadEvidence(path)
		if err != nil {
			return
		}
		if r, err := judge.Falsify(e, judge.Selection{}); err != nil || r.Overall == judge.Pass && len(e) < len(cases) {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}

// Keys lists exactly the values that the evidence of the falsifiers has, and another one is
// refused.
func TestKeys(t *testing.T) {
	used := map[string]bool{"experiment_2_status": true} // read only without inferences
	for _, c := range cases {
		for key := range evidence(t, c.pass) {
			used[key] = true
		}
		for text := range c.not {
			var e map[string]json.RawMessage
			if json.Unmarshal([]byte(text), &e) == nil {
				for key := range e {
					used[key] = true
				}
			}
		}
	}
	if got := slices.Sorted(maps.Keys(used)); !slices.Equal(got, judge.Keys()) {
		t.Errorf("got %v, want %v", judge.Keys(), got)
	}
	path := filepath.Join(t.TempDir(), "e.json")
	if err := os.WriteFile(path, []byte(`{"delegated_share": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := judge.ReadEvidence(path); err == nil || !strings.Contains(err.Error(), `unknown key "delegated_share", want one of battery_heat,`) {
		t.Error(err)
	}
}
