package sound

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// flite is the prefix of its voices among those of espeak-ng.
const flite = "flite+"

// fliteTimes is the number of takes of a flite voice for each of an espeak-ng
// voice: they are few and more human.
const fliteTimes = 10

// fliteVoices lists flite's built-in voices: diphones, and units of three
// speakers.
func fliteVoices() []string { return []string{"awb", "kal", "kal16", "rms", "slt"} }

// fliteVersion returns the version of flite and checks that it has the voices.
func fliteVersion(ctx context.Context, program string) (string, error) {
	list, err := exec.CommandContext(ctx, program, "-lv").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%w: install flite (Debian: apt-get install flite)", err)
	}
	if err != nil {
		return "", fmt.Errorf("listing the voices of %s: %w", program, err)
	}
	has := strings.Fields(string(list))
	for _, v := range fliteVoices() {
		if !slices.Contains(has, v) {
			return "", fmt.Errorf("%s: missing voice %s", program, v)
		}
	}
	// It prints its version and exits with a nonzero status.
	output, _ := exec.CommandContext(ctx, program, "--version").CombinedOutput()
	for line := range strings.Lines(string(output)) {
		if _, version, ok := strings.Cut(line, "version: "); ok {
			return strings.TrimSpace(version), nil
		}
	}
	return "", fmt.Errorf("%s prints no version", program)
}

// fliteArgs returns the arguments for a take: its pitch of 20 to 80 maps to 80
// to 230 Hz, its speed in words per minute is relative to the default of 165.
func fliteArgs(voice string, t Take) []string {
	return []string{"-voice", voice, "--setf", fmt.Sprintf("duration_stretch=%.3f", 165/float64(t.Speed)),
		"--setf", fmt.Sprintf("int_f0_target_mean=%.1f", 80+float64(t.Pitch-20)*2.5), "-t", t.Text, "-o", "/dev/stdout"}
}
