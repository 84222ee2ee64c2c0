package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// The thresholds that several rules or their texts share.
const (
	minDelegate  = 0.5
	maxFertility = 2.5
	minCosine    = 0.99
	minLowCosine = 0.95
	maxSameness  = 0.999
)

// Falsifiers returns the falsifiers, sorted by ID.
func Falsifiers() []Falsifier {
	all := slices.Concat(device(), load(), model(), corpus(), room())
	slices.SortFunc(all, func(a, b Falsifier) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// over fails a value above its limit.
func over(kind func(*view, string) float64, key string, limit float64, format string) func(*view) (Result, string) {
	return func(v *view) (Result, string) {
		n := kind(v, key)
		detail := fmt.Sprintf(format+", limit %v", n, limit)
		if n > limit {
			return Fail, detail
		}
		return Pass, detail
	}
}

// empty fails a non-empty list.
func empty(key, what string) func(*view) (Result, string) {
	return func(v *view) (Result, string) {
		if l := v.list(key); len(l) > 0 {
			return Fail, fmt.Sprintf("%d %s: %s", len(l), what, strings.Join(l[:min(len(l), 5)], ", "))
		}
		return Pass, "no " + what
	}
}

// device returns the rules about chips and what runs on them.
func device() []Falsifier {
	return []Falsifier{
		{ID: "device_soc_mismatch", Rule: "soc_reported equals soc_target", Gates: []string{"0D", "1A"}, Response: "build for the reported chip",
			check: func(v *view) (Result, string) {
				a, b := v.text("soc_reported"), v.text("soc_target")
				if a == "" || !strings.EqualFold(a, b) {
					return Fail, fmt.Sprintf("reported %q, target %q", a, b)
				}
				return Pass, a
			}},
		{ID: "phone_not_attached", Rule: "phone_attached", Gates: []string{"0D", "1A"}, Response: "attach and authorize the phone",
			check: func(v *view) (Result, string) { return shown(v, v.yes("phone_attached"), "a phone is attached") }},
		{ID: "qnn_exact_path_unproven", Rule: "compile_records (rows of the truth table) holds a measured row of a chip with result ok", Gates: []string{"0C", "1A"}, Response: "compile the exact path instead of a stub",
			check: exactPath},
		{ID: "qnn_unsupported_op", Rule: fmt.Sprintf("delegate_share is at least %v", minDelegate), Gates: []string{"1A"}, Response: "see the unsupported operators in the truth table",
			check: func(v *view) (Result, string) {
				s := v.share("delegate_share")
				if s < minDelegate {
					return Fail, fmt.Sprintf("%.3f of the graph delegated", s)
				}
				return Pass, fmt.Sprintf("%.3f of the graph delegated", s)
			}},
		{ID: "qnn_runtime_silently_falls_back_to_cpu", Rule: "npu_shown_by holds hvx_threads or fp16_grid; timing does not count, nor does a profile, since an emulation writes its events, too", Gates: []string{"1A"}, Response: "run mm device run and check the record",
			check: func(v *view) (Result, string) {
				by := v.list("npu_shown_by")
				for _, sign := range by {
					if slices.Contains([]string{"hvx_threads", "fp16_grid"}, sign) {
						return Pass, "proven by " + sign
					}
				}
				return Fail, fmt.Sprintf("%v proves nothing: a CPU can be as fast, and an emulation writes events", by)
			}},
		{ID: "phase_1a_inference_unproven", Rule: "inferences_measured is above 0", Gates: []string{"1A"}, Response: "run it on the device",
			check: func(v *view) (Result, string) {
				return shown(v, v.positive("inferences_measured") > 0, "inferences on the device")
			}},
		{ID: "smollm3_export_unproven", Rule: `experiment_2_status is "pass"`, Gates: []string{"0G", "1A"}, Response: "export it or omit it",
			check: func(v *view) (Result, string) { return shown(v, v.text("experiment_2_status") == "pass", "the export") }},
		{ID: "phase_1aa0_cosine_validation", Rule: fmt.Sprintf("the median of cosine_total is at least %v, the minimum of cosine_p5 at least %v, and there are outputs_expected values", minCosine, minLowCosine), Gates: []string{"1A"}, Response: "compare with the reference layer by layer",
			check: cosines},
		{ID: "binary_holds_meaningful_weights", Rule: fmt.Sprintf("source_weights_sha256 is a digest, and cosine_between_inputs, between outputs of different inputs, is below %v", maxSameness), Gates: []string{"1A"}, Response: "trace the weights from the checkpoint into the binary",
			check: func(v *view) (Result, string) {
				same, weights := v.cosine("cosine_between_inputs"), v.text("source_weights_sha256")
				if !isDigest(weights) {
					return Fail, fmt.Sprintf("%q is not a digest", weights)
				}
				if same >= maxSameness {
					return Fail, fmt.Sprintf("outputs of different inputs have cosine %v: they do not depend on the input", same)
				}
				return Pass, fmt.Sprintf("outputs of different inputs have cosine %v", same)
			}},
	}
}

// shown blocks unless good, also if the evidence is missing.
func shown(v *view, good bool, what string) (Result, string) {
	if !good {
		return Blocked, "not proven: " + what
	}
	return Pass, "proven: " + what
}

// exactPath reads rows of mm lab truth --json. It computes their stages anew, since a file
// can claim any stage.
func exactPath(v *view) (Result, string) {
	rows := get[[]Row](v, "compile_records")
	var records []Record
	for _, r := range rows {
		if r.Result != NotRun {
			records = append(records, r.Record)
		}
	}
	table, err := MakeTable(records)
	if err != nil {
		v.wrong = append(v.wrong, fmt.Sprintf("compile_records: %v", err))
		return Blocked, ""
	}
	for _, r := range table.Rows {
		if r.Result == OK && r.Stage == Measured && r.OfChip() {
			return Pass, fmt.Sprintf("%s of %s on %s", r.Scope, r.Model, r.Target)
		}
	}
	return Blocked, fmt.Sprintf("no measured record of a chip with result ok among %d", len(records))
}

func cosines(v *view) (Result, string) {
	total, low, expected := get[[]float64](v, "cosine_total"), get[[]float64](v, "cosine_p5"), v.positive("outputs_expected")
	v.bound("cosine_total", -maxCosine, maxCosine, total...)
	v.bound("cosine_p5", -maxCosine, maxCosine, low...)
	if len(total) == 0 || float64(len(total)) != expected || len(low) != len(total) {
		return Fail, fmt.Sprintf("%d and %d of %v outputs compared", len(total), len(low), expected)
	}
	slices.Sort(total)
	median := (total[(len(total)-1)/2] + total[len(total)/2]) / 2
	detail := fmt.Sprintf("median %.5f, minimum p5 %.5f", median, slices.Min(low))
	if median < minCosine || slices.Min(low) < minLowCosine {
		return Fail, detail
	}
	return Pass, detail
}

// load returns the rules about heat, battery, memory and speed.
func load() []Falsifier {
	gates := []string{"0E", "1A"}
	return []Falsifier{
		{ID: "oom_or_memory_pressure", Rule: "oom is false and peak_ram_gb below 22; warns from 20", Gates: gates, Response: "reduce the context or the batch",
			check: func(v *view) (Result, string) {
				oom, peak := v.yes("oom"), v.positive("peak_ram_gb")
				return grade(oom || peak >= 22, peak >= 20), fmt.Sprintf("out of memory: %v, peak %.1f GB", oom, peak)
			}},
		{ID: "thermal_throttle", Rule: "gpu_clock_below_600_share of an hour is at most 0.10", Gates: gates, Response: "cool the phone or pause more", check: over((*view).share, "gpu_clock_below_600_share", 0.10, "a share of %.3f")},
		{ID: "thermal_throttling_under_sustained_load", Rule: "latency_last_hour_p50_ms is at most 1.2 times latency_first_hour_p50_ms", Gates: gates, Response: "cool the phone or pause more",
			check: func(v *view) (Result, string) {
				first, last := v.positive("latency_first_hour_p50_ms"), v.positive("latency_last_hour_p50_ms")
				return grade(!(first > 0) || last > 1.2*first, false), fmt.Sprintf("%.3f ms, then %.3f ms", first, last)
			}},
		{ID: "battery_heat_risk", Rule: "battery_heat is below 1 minute at 42 °C or more and below 5 minutes from 40 to 42 °C", Gates: gates, Response: "stop and cool the phone", check: batteryHeat},
		{ID: "battery_drain_exceeds_safe_envelope", Rule: "battery_pct_per_hour is at most 20", Gates: gates, Response: "use mains power", check: over((*view).rate, "battery_pct_per_hour", 20, "%.1f %% per hour")},
		{ID: "charge_bypass_unproven", Rule: "battery_pct_drift_per_hour is from -2 to 2", Gates: gates, Response: "prove that the battery is bypassed",
			check: func(v *view) (Result, string) {
				d := v.rate("battery_pct_drift_per_hour")
				return grade(math.Abs(d) > 2, false), fmt.Sprintf("%.2f %% per hour", d)
			}},
		{ID: "throughput_floor_fail", Rule: "tokens_per_hour is at least 100 000; warns below 500 000", Gates: gates, Response: "check the profile",
			check: func(v *view) (Result, string) {
				n := v.positive("tokens_per_hour")
				return grade(n < 100_000, n < 500_000), fmt.Sprintf("%.0f tokens per hour", n)
			}},
		{ID: "energy_budget_exceeded", Rule: "joule_per_token is at most 1.2 times joule_per_token_baseline, or quality_gain is above 0", Gates: []string{"1A"}, Response: "use the cheaper backend",
			check: func(v *view) (Result, string) {
				j, base, gain := v.positive("joule_per_token"), v.positive("joule_per_token_baseline"), v.points("quality_gain")
				return grade(j > 1.2*base && gain <= 0, false), fmt.Sprintf("%.4f J per token, baseline %.4f, quality %+.4f", j, base, gain)
			}},
		{ID: "silent_output_corruption_under_load", Rule: "outputs_of_one_input are all equal", Gates: []string{"1A"}, Response: "find when they start to differ",
			check: func(v *view) (Result, string) {
				l := v.list("outputs_of_one_input")
				distinct := slices.Compact(slices.Sorted(slices.Values(l)))
				return grade(len(l) < 2 || len(distinct) > 1 || l[0] == "", false), fmt.Sprintf("%d outputs of one input, %d distinct", len(l), len(distinct))
			}},
	}
}

func grade(fail, warn bool) Result {
	switch {
	case fail:
		return Fail
	case warn:
		return Warn
	}
	return Pass
}

// batteryHeat weighs samples by their times: a sample counts until the next one, and for
// one minute at most, so that a gap does not count as heat.
func batteryHeat(v *view) (Result, string) {
	samples := get[[]struct {
		Time string  `json:"time"`
		C    float64 `json:"c"`
	}](v, "battery_heat")
	if len(v.missing) > 0 {
		return Skip, ""
	}
	var hot, warm time.Duration
	var before time.Time
	for i, s := range samples {
		at, err := time.Parse(time.RFC3339, s.Time)
		if err != nil || i > 0 && at.Before(before) {
			v.wrong = append(v.wrong, fmt.Sprintf("battery_heat: sample %d: time %q is malformed or not ascending", i+1, s.Time))
			return Blocked, ""
		}
		v.bound("battery_heat", minCelsius, maxCelsius, s.C)
		if i > 0 {
			held := min(at.Sub(before), time.Minute)
			switch c := samples[i-1].C; {
			case c >= 42:
				hot += held
			case c >= 40:
				warm += held
			}
		}
		before = at
	}
	if len(samples) < 2 {
		return Blocked, "fewer than two samples"
	}
	return grade(hot >= time.Minute || warm >= 5*time.Minute, false), fmt.Sprintf("%v at 42 °C or more, %v from 40 °C", hot, warm)
}

// model returns the rules about training and claims.
func model() []Falsifier {
	gates := []string{"1A"}
	return []Falsifier{
		{ID: "checkpoint_hash_mismatch", Rule: "checkpoint_sha256 equals checkpoint_sha256_expected", Gates: gates, Response: "copy the checkpoint again from its source",
			check: func(v *view) (Result, string) {
				a, b := v.text("checkpoint_sha256"), v.text("checkpoint_sha256_expected")
				return grade(!isDigest(a) || a != b, false), fmt.Sprintf("%.19s, expected %.19s", a, b)
			}},
		{ID: "catastrophic_forgetting", Rule: "english_anchor_drop_pp is at most 1", Gates: gates, Response: "mix more of the old data", check: over((*view).points, "english_anchor_drop_pp", 1, "%.2f points")},
		{ID: "cross_model_disagreement_high", Rule: "disagreement is at most 0.30", Advisory: true, Gates: gates, Response: "review manually", check: soft((*view).share, "disagreement", func(n float64) bool { return n > 0.30 })},
		{ID: "method_disagreement_high", Rule: "spearman_rho is at least 0.6", Advisory: true, Gates: gates, Response: "review manually", check: soft((*view).cosine, "spearman_rho", func(n float64) bool { return n < 0.6 })},
		{ID: "overclaim", Rule: "unsupported_claims is empty", Gates: gates, Response: "withdraw the claim or prove it", check: empty("unsupported_claims", "unsupported claims")},
		{ID: "phase_module_missing", Rule: "phase_modules_missing is empty", Gates: gates, Response: "add the modules", check: empty("phase_modules_missing", "missing modules")},
	}
}

func soft(kind func(*view, string) float64, key string, bad func(float64) bool) func(*view) (Result, string) {
	return func(v *view) (Result, string) {
		n := kind(v, key)
		return grade(false, bad(n)), fmt.Sprintf("%s is %.3f", key, n)
	}
}

// corpus returns the rules about data and texts.
func corpus() []Falsifier {
	return []Falsifier{
		{ID: "boundary_violation", Rule: "scan_failures is empty", Gates: []string{"0A", "1A"}, Response: "correct the text (mm lab boundary)", check: empty("scan_failures", "boundary violations")},
		{ID: "license_drift", Rule: "license_classes holds only A to C, and sources_without_class is 0", Gates: []string{"0A", "1A"}, Response: "omit the source (mm lab corpus)",
			check: func(v *view) (Result, string) {
				classes, without := v.list("license_classes"), v.positive("sources_without_class")
				for _, c := range classes {
					if !slices.Contains([]string{"A", "B", "C"}, c) {
						return Fail, fmt.Sprintf("source of class %q", c)
					}
				}
				return grade(without != 0 || len(classes) == 0, false), fmt.Sprintf("%d sources, %v without a class", len(classes), without)
			}},
		{ID: "ocr_damage_high", Rule: "ocr_damage is at most 0.30", Gates: []string{"1A"}, Response: "scan again", check: over((*view).share, "ocr_damage", 0.30, "%.3f")},
		{ID: "tokenizer_fertility_high", Rule: fmt.Sprintf("fertility_ratios are at most %v", maxFertility), Gates: []string{"0F", "1A"}, Response: "omit the language or use another tokenizer",
			check: func(v *view) (Result, string) {
				ratios := get[map[string]float64](v, "fertility_ratios")
				var high []string
				for language, r := range ratios {
					if !(r > 0 && r <= maxFertility) {
						high = append(high, fmt.Sprintf("%s %.2f", language, r))
					}
				}
				slices.Sort(high)
				return grade(len(high) > 0 || len(ratios) == 0, false), fmt.Sprintf("%d of %d languages: %s", len(high), len(ratios), strings.Join(high, ", "))
			}},
	}
}

// room returns the rules about the environment of a phone.
func room() []Falsifier {
	gates := []string{"0E"}
	return []Falsifier{
		{ID: "condensation_risk", Rule: "surface_c is above dew_c; warns within 2 °C while dew_rise_c_per_min is above 0.5", Gates: gates, Response: "warm the surface",
			check: func(v *view) (Result, string) {
				gap, rise := v.celsius("surface_c")-v.celsius("dew_c"), v.points("dew_rise_c_per_min")
				return grade(gap <= 0, gap <= 2 && rise > 0.5), fmt.Sprintf("%.2f °C above the dew point, which rises by %.2f per minute", gap, rise)
			}},
		{ID: "wifi_silent", Rule: "minutes_since_push is at most 30", Gates: gates, Response: "check whether the phone is alive",
			check: func(v *view) (Result, string) {
				n := v.positive("minutes_since_push")
				return grade(false, n > 30), fmt.Sprintf("%.0f minutes", n)
			}},
		{ID: "fan_silent", Rule: `fan_state is not "silent" and fan_rpm is above 0`, Gates: gates, Response: "stop and check the fan",
			check: func(v *view) (Result, string) {
				state, rpm := v.text("fan_state"), v.positive("fan_rpm")
				return grade(state == "silent" || rpm <= 0, false), fmt.Sprintf("%s, %.0f rpm", state, rpm)
			}},
		{ID: "screen_off_violation", Rule: "screen_on_count is 0", Gates: gates, Response: "turn the screen off",
			check: func(v *view) (Result, string) {
				n := v.positive("screen_on_count")
				return grade(false, n > 0), fmt.Sprintf("%.0f times", n)
			}},
	}
}
