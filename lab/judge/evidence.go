package judge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/records"
)

// maxEvidence is the maximum size of an evidence file in bytes.
const maxEvidence = 4 << 20

// Evidence holds values by name; docs/LAB.md lists them.
type Evidence map[string]json.RawMessage

// ReadEvidence reads the JSON object in the file at path. A key that no falsifier
// reads is an error.
func ReadEvidence(path string) (Evidence, error) {
	data, err := fsx.ReadFile(path, maxEvidence)
	if err != nil {
		return nil, err
	}
	var e Evidence
	if err := records.Strict(data, &e); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if e == nil {
		return nil, fmt.Errorf("%s: not a JSON object", path)
	}
	for _, key := range slices.Sorted(maps.Keys(e)) {
		if !slices.Contains(Keys(), key) {
			return nil, fmt.Errorf("%s: unknown key %q, want one of %s", path, key, strings.Join(Keys(), ", "))
		}
	}
	return e, nil
}

// Keys returns the names of the values that the falsifiers read, sorted.
func Keys() []string {
	return []string{
		"battery_heat", "battery_pct_drift_per_hour", "battery_pct_per_hour", "checkpoint_sha256", "checkpoint_sha256_expected",
		"compile_records", "cosine_between_inputs", "cosine_p5", "cosine_total", "delegate_share", "dew_c", "dew_rise_c_per_min",
		"disagreement", "english_anchor_drop_pp", "experiment_2_status", "fan_rpm", "fan_state", "fertility_ratios",
		"gpu_clock_below_600_share", "inferences_measured", "joule_per_token", "joule_per_token_baseline", "latency_first_hour_p50_ms",
		"latency_last_hour_p50_ms", "license_classes", "minutes_since_push", "npu_shown_by", "ocr_damage", "oom", "outputs_expected",
		"outputs_of_one_input", "peak_ram_gb", "phase_modules_missing", "phone_attached", "quality_gain", "scan_failures",
		"screen_on_count", "soc_reported", "soc_target", "source_weights_sha256", "sources_without_class", "spearman_rho", "surface_c",
		"tokens_per_hour", "unsupported_claims",
	}
}

// view reads the evidence for one check and collects missing and malformed values.
type view struct {
	e       Evidence
	missing []string
	wrong   []string
}

func get[T any](v *view, key string) (out T) {
	raw, ok := v.e[key]
	if !ok || string(raw) == "null" {
		v.missing = append(v.missing, key)
		return out
	}
	if err := records.Strict(raw, &out); err != nil {
		v.wrong = append(v.wrong, fmt.Sprintf("%s: %v", key, err))
	}
	return out
}

func (v *view) number(key string) float64 {
	n := get[float64](v, key)
	if math.IsNaN(n) || math.IsInf(n, 0) {
		v.wrong = append(v.wrong, key+": not a finite number")
	}
	return n
}

// bound reports values outside the range that is possible.
func (v *view) bound(key string, least, most float64, list ...float64) {
	for _, n := range list {
		if !(n >= least && n <= most) {
			v.wrong = append(v.wrong, fmt.Sprintf("%s: got %v, want %v to %v", key, n, least, most))
		}
	}
}

func (v *view) between(key string, least, most float64) float64 {
	n := v.number(key)
	v.bound(key, least, most, n)
	return n
}

// The kinds of values.
func (v *view) share(key string) float64    { return v.between(key, 0, 1) }
func (v *view) positive(key string) float64 { return v.between(key, 0, math.MaxFloat64) } // or 0
func (v *view) cosine(key string) float64   { return v.between(key, -maxCosine, maxCosine) }
func (v *view) celsius(key string) float64  { return v.between(key, minCelsius, maxCelsius) }
func (v *view) points(key string) float64   { return v.between(key, -100, 100) }
func (v *view) rate(key string) float64     { return v.between(key, -1000, 1000) } // of the battery charge, % per hour

// The possible range of values.
const (
	maxCosine  = 1 + 1e-6 // allows for rounding
	minCelsius = -60
	maxCelsius = 200
)

// isDigest reports whether s is a SHA-256 in hex other than all zeros.
func isDigest(s string) bool {
	raw, err := hex.DecodeString(strings.TrimPrefix(s, "sha256:"))
	return err == nil && len(raw) == sha256.Size && [sha256.Size]byte(raw) != [sha256.Size]byte{}
}

func (v *view) text(key string) string   { return strings.TrimSpace(get[string](v, key)) }
func (v *view) yes(key string) bool      { return get[bool](v, key) }
func (v *view) list(key string) []string { return get[[]string](v, key) }
