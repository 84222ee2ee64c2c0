package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// The thresholds that several rules or their words use.
const (
	minDelegate  = 0.5
	maxFertility = 2.5
	minCosine    = 0.99
	minLowCosine = 0.95
	maxSameness  = 0.999
)

// All lists the falsifiers, in the order of their ids.
func Falsifiers() []Falsifier {
	all := slices.Concat(device(), load(), model(), corpus(), room())
	slices.SortFunc(all, func(a, b Falsifier) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// over fails a number of a kind above its limit.
func over(kind func(*view, string) float64, key string, limit float64, format string) func(*view) (Result, string) {
	return func(v *view) (Result, string) {
		n := kind(v, key)
		detail := fmt.Sprintf(format+", the limit is %v", n, limit)
		if n > limit {
			return Fail, detail
		}
		return Pass, detail
	}
}

// empty fails a list that holds anything.
func empty(key, what string) func(*view) (Result, string) {
	return func(v *view) (Result, string) {
		if l := v.list(key); len(l) > 0 {
			return Fail, fmt.Sprintf("%d %s: %s", len(l), what, strings.Join(l[:min(len(l), 5)], ", "))
		}
		return Pass, "no " + what
	}
}

// device are the rules of chips and of what runs on them.
func device() []Falsifier {
	return []Falsifier{
		{ID: "device_soc_mismatch", Rule: "soc_reported is soc_target", Gates: []string{"0D", "1A"}, Response: "build for the chip that is there",
			check: func(v *view) (Result, string) {
				a, b := v.text("soc_reported"), v.text("soc_target")
				if a == "" || !strings.EqualFold(a, b) {
					return Fail, fmt.Sprintf("%q is there, %q is the target", a, b)
				}
				return Pass, a
			}},
		{ID: "phone_not_attached", Rule: "phone_attached", Gates: []string{"0D", "1A"}, Response: "attach and authorise it",
			check: func(v *view) (Result, string) { return shown(v, v.yes("phone_attached"), "a phone is attached") }},
		{ID: "qnn_exact_path_unproven", Rule: "a record of compile_records, rows of the truth table, is of a chip, has the result ok and was measured", Gates: []string{"0C", "1A"}, Response: "compile the exact path, not a stub",
			check: exactPath},
		{ID: "qnn_unsupported_op", Rule: fmt.Sprintf("delegate_share is at least %v", minDelegate), Gates: []string{"1A"}, Response: "see which operators the truth table lists",
			check: func(v *view) (Result, string) {
				s := v.share("delegate_share")
				if s < minDelegate {
					return Fail, fmt.Sprintf("%.3f of the graph is delegated", s)
				}
				return Pass, fmt.Sprintf("%.3f of the graph is delegated", s)
			}},
		{ID: "qnn_runtime_silently_falls_back_to_cpu", Rule: "npu_shown_by names a sign of the NPU's own: hvx_threads, fp16_grid; never timing, and never a profile, whose events an emulation writes, too", Gates: []string{"1A"}, Response: "run it by mm device run, and see the record",
			check: func(v *view) (Result, string) {
				by := v.list("npu_shown_by")
				for _, sign := range by {
					if slices.Contains([]string{"hvx_threads", "fp16_grid"}, sign) {
						return Pass, "shown by " + sign
					}
				}
				return Fail, fmt.Sprintf("%v shows nothing: a CPU can be as fast, and an emulation writes events", by)
			}},
		{ID: "phase_1a_inference_unproven", Rule: "inferences_measured is above 0", Gates: []string{"1A"}, Response: "run it on the device",
			check: func(v *view) (Result, string) {
				return shown(v, v.positive("inferences_measured") > 0, "inferences on the device")
			}},
		{ID: "smollm3_export_unproven", Rule: `experiment_2_status is "pass"`, Gates: []string{"0G", "1A"}, Response: "export it, or leave it out",
			check: func(v *view) (Result, string) { return shown(v, v.text("experiment_2_status") == "pass", "the export") }},
		{ID: "phase_1aa0_cosine_validation", Rule: fmt.Sprintf("the median of cosine_total is at least %v, the least of cosine_p5 at least %v, and none of outputs_expected is missing", minCosine, minLowCosine), Gates: []string{"1A"}, Response: "compare with the reference layer by layer",
			check: cosines},
		{ID: "binary_holds_meaningful_weights", Rule: fmt.Sprintf("source_weights_sha256 is named, and outputs of different inputs have cosines below %v (cosine_between_inputs)", maxSameness), Gates: []string{"1A"}, Response: "trace the weights from the checkpoint into the binary",
			check: func(v *view) (Result, string) {
				same, weights := v.cosine("cosine_between_inputs"), v.text("source_weights_sha256")
				if !isDigest(weights) {
					return Fail, fmt.Sprintf("%q is no digest of weights", weights)
				}
				if same >= maxSameness {
					return Fail, fmt.Sprintf("outputs of different inputs have the cosine %v: it does not read them", same)
				}
				return Pass, fmt.Sprintf("outputs of different inputs have the cosine %v", same)
			}},
	}
}

// shown blocks where a thing that must be shown is not, also where nobody speaks
// of it.
func shown(v *view, good bool, what string) (Result, string) {
	if !good {
		return Blocked, "not shown: " + what
	}
	return Pass, "shown: " + what
}

// exactPath takes rows of mm lab truth --json. The stage is found anew: what a row
// claims is what anybody can write.
func exactPath(v *view) (Result, string) {
	rows := get[[]Row](v, "compile_records")
	var records []Record
	for _, r := range rows {
		if r.Result != NotRun {
			records = append(records, r.Record)
		}
	}
	table, err := Make(records)
	if err != nil {
		v.wrong = append(v.wrong, fmt.Sprintf("compile_records: %v", err))
		return Blocked, ""
	}
	for _, r := range table.Rows {
		if r.Result == OK && r.Stage == Measured && r.OfChip() {
			return Pass, fmt.Sprintf("%s of %s on %s", r.Scope, r.Model, r.Target)
		}
	}
	return Blocked, fmt.Sprintf("none of %d records is ok, of a chip, and measured", len(records))
}

func cosines(v *view) (Result, string) {
	total, low, expected := get[[]float64](v, "cosine_total"), get[[]float64](v, "cosine_p5"), v.positive("outputs_expected")
	v.bound("cosine_total", -maxCosine, maxCosine, total...)
	v.bound("cosine_p5", -maxCosine, maxCosine, low...)
	if len(total) == 0 || float64(len(total)) != expected || len(low) != len(total) {
		return Fail, fmt.Sprintf("%d and %d of %v outputs were compared", len(total), len(low), expected)
	}
	slices.Sort(total)
	median := (total[(len(total)-1)/2] + total[len(total)/2]) / 2
	detail := fmt.Sprintf("median %.5f, least of the low ones %.5f", median, slices.Min(low))
	if median < minCosine || slices.Min(low) < minLowCosine {
		return Fail, detail
	}
	return Pass, detail
}

// load are the rules of heat, battery, memory and speed.
func load() []Falsifier {
	gates := []string{"0E", "1A"}
	return []Falsifier{
		{ID: "oom_or_memory_pressure", Rule: "no oom; peak_ram_gb below 22, a warning from 20", Gates: gates, Response: "shorten the context, or the batch",
			check: func(v *view) (Result, string) {
				oom, peak := v.yes("oom"), v.positive("peak_ram_gb")
				return grade(oom || peak >= 22, peak >= 20), fmt.Sprintf("out of memory: %v, peak %.1f GB", oom, peak)
			}},
		{ID: "thermal_throttle", Rule: "gpu_clock_below_600_share of an hour is at most 0.10", Gates: gates, Response: "cool it, or pause more", check: over((*view).share, "gpu_clock_below_600_share", 0.10, "a share of %.3f")},
		{ID: "thermal_throttling_under_sustained_load", Rule: "latency_last_hour_p50_ms is at most 1.2 times latency_first_hour_p50_ms", Gates: gates, Response: "cool it, or pause more",
			check: func(v *view) (Result, string) {
				first, last := v.positive("latency_first_hour_p50_ms"), v.positive("latency_last_hour_p50_ms")
				return grade(!(first > 0) || last > 1.2*first, false), fmt.Sprintf("%.3f ms, then %.3f ms", first, last)
			}},
		{ID: "battery_heat_risk", Rule: "battery_heat (minutes at or above 42 °C, and from 40 to 42) is below 1 and 5 minutes", Gates: gates, Response: "stop, and cool it", check: batteryHeat},
		{ID: "battery_drain_exceeds_safe_envelope", Rule: "battery_pct_per_hour is at most 20", Gates: gates, Response: "run it from the mains", check: over((*view).rate, "battery_pct_per_hour", 20, "%.1f %% an hour")},
		{ID: "charge_bypass_unproven", Rule: "battery_pct_drift_per_hour is at most 2, either way", Gates: gates, Response: "show that the battery is bypassed",
			check: func(v *view) (Result, string) {
				d := v.rate("battery_pct_drift_per_hour")
				return grade(math.Abs(d) > 2, false), fmt.Sprintf("%.2f %% an hour", d)
			}},
		{ID: "throughput_floor_fail", Rule: "tokens_per_hour is at least 100 000, a warning below 500 000", Gates: gates, Response: "see the profile",
			check: func(v *view) (Result, string) {
				n := v.positive("tokens_per_hour")
				return grade(n < 100_000, n < 500_000), fmt.Sprintf("%.0f tokens an hour", n)
			}},
		{ID: "energy_budget_exceeded", Rule: "joule_per_token is at most 1.2 times joule_per_token_baseline, or quality_gain is above 0", Gates: []string{"1A"}, Response: "take the cheaper backend",
			check: func(v *view) (Result, string) {
				j, base, gain := v.positive("joule_per_token"), v.positive("joule_per_token_baseline"), v.points("quality_gain")
				return grade(j > 1.2*base && gain <= 0, false), fmt.Sprintf("%.4f J a token, baseline %.4f, quality %+.4f", j, base, gain)
			}},
		{ID: "silent_output_corruption_under_load", Rule: "outputs_of_one_input are all the same", Gates: []string{"1A"}, Response: "find when they begin to differ",
			check: func(v *view) (Result, string) {
				l := v.list("outputs_of_one_input")
				different := slices.Compact(slices.Sorted(slices.Values(l)))
				return grade(len(l) < 2 || len(different) > 1 || l[0] == "", false), fmt.Sprintf("%d outputs of one input, %d different", len(l), len(different))
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

// batteryHeat counts by the samples' own times, whatever their rate: a sample
// holds until the next, and for a minute at most, so that a gap is no heat.
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
			v.wrong = append(v.wrong, fmt.Sprintf("battery_heat: %q of sample %d is no later time", s.Time, i+1))
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
	return grade(hot >= time.Minute || warm >= 5*time.Minute, false), fmt.Sprintf("%v at 42 °C or more, %v from 40", hot, warm)
}

// model are the rules of what was trained and of what is said of it.
func model() []Falsifier {
	gates := []string{"1A"}
	return []Falsifier{
		{ID: "checkpoint_hash_mismatch", Rule: "checkpoint_sha256 is checkpoint_sha256_expected", Gates: gates, Response: "take the checkpoint again from where it was made",
			check: func(v *view) (Result, string) {
				a, b := v.text("checkpoint_sha256"), v.text("checkpoint_sha256_expected")
				return grade(!isDigest(a) || a != b, false), fmt.Sprintf("%.19s, expected %.19s", a, b)
			}},
		{ID: "catastrophic_forgetting", Rule: "english_anchor_drop_pp is at most 1", Gates: gates, Response: "mix more of the old data", check: over((*view).points, "english_anchor_drop_pp", 1, "%.2f points")},
		{ID: "cross_model_disagreement_high", Rule: "disagreement is at most 0.30", Advisory: true, Gates: gates, Response: "have people look", check: soft((*view).share, "disagreement", func(n float64) bool { return n > 0.30 })},
		{ID: "method_disagreement_high", Rule: "spearman_rho is at least 0.6", Advisory: true, Gates: gates, Response: "have people look", check: soft((*view).cosine, "spearman_rho", func(n float64) bool { return n < 0.6 })},
		{ID: "overclaim", Rule: "unsupported_claims is empty", Gates: gates, Response: "take the claim back, or show it", check: empty("unsupported_claims", "claims that nothing supports")},
		{ID: "phase_module_missing", Rule: "phase_modules_missing is empty", Gates: gates, Response: "the phase cannot run", check: empty("phase_modules_missing", "modules that are missing")},
	}
}

func soft(kind func(*view, string) float64, key string, bad func(float64) bool) func(*view) (Result, string) {
	return func(v *view) (Result, string) {
		n := kind(v, key)
		return grade(false, bad(n)), fmt.Sprintf("%s is %.3f", key, n)
	}
}

// corpus are the rules of data and words.
func corpus() []Falsifier {
	return []Falsifier{
		{ID: "boundary_violation", Rule: "scan_failures is empty", Gates: []string{"0A", "1A"}, Response: "mend the text (mm lab boundary)", check: empty("scan_failures", "breaches of the boundary")},
		{ID: "license_drift", Rule: "every class of license_classes is A to C, and sources_without_class is 0", Gates: []string{"0A", "1A"}, Response: "leave the source out (mm lab corpus)",
			check: func(v *view) (Result, string) {
				classes, without := v.list("license_classes"), v.positive("sources_without_class")
				for _, c := range classes {
					if !slices.Contains([]string{"A", "B", "C"}, c) {
						return Fail, fmt.Sprintf("a source of class %q", c)
					}
				}
				return grade(without != 0 || len(classes) == 0, false), fmt.Sprintf("%d sources, %v without a class", len(classes), without)
			}},
		{ID: "ocr_damage_high", Rule: "ocr_damage is at most 0.30", Gates: []string{"1A"}, Response: "scan it again", check: over((*view).share, "ocr_damage", 0.30, "%.3f")},
		{ID: "tokenizer_fertility_high", Rule: fmt.Sprintf("no ratio of fertility_ratios is above %v", maxFertility), Gates: []string{"0F", "1A"}, Response: "leave the language out, or take another tokenizer",
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

// room are the rules of the place a phone lies in.
func room() []Falsifier {
	gates := []string{"0E"}
	return []Falsifier{
		{ID: "condensation_risk", Rule: "surface_c is above dew_c; a warning within 2 °C of it while dew_rise_c_per_min is above 0.5", Gates: gates, Response: "warm the surface",
			check: func(v *view) (Result, string) {
				gap, rise := v.celsius("surface_c")-v.celsius("dew_c"), v.points("dew_rise_c_per_min")
				return grade(gap <= 0, gap <= 2 && rise > 0.5), fmt.Sprintf("%.2f °C above the dew point, which rises by %.2f a minute", gap, rise)
			}},
		{ID: "wifi_silent", Rule: "minutes_since_push is at most 30", Gates: gates, Response: "see whether the phone is alive",
			check: func(v *view) (Result, string) {
				n := v.positive("minutes_since_push")
				return grade(false, n > 30), fmt.Sprintf("%.0f minutes", n)
			}},
		{ID: "fan_silent", Rule: `fan_state is not "silent" and fan_rpm is above 0`, Gates: gates, Response: "stop, and see to the fan",
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
