package sound

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// flite begins the names of its voices among those of espeak-ng.
const flite = "flite+"

// fliteTimes is how often a voice of flite speaks where one of espeak-ng speaks
// once: there are few of them, and they are nearer to people.
const fliteTimes = 10

// fliteVoices are those that flite brings: diphones, and units of three speakers.
func fliteVoices() []string { return []string{"awb", "kal", "kal16", "rms", "slt"} }

// fliteVersion is what a flite calls itself, if it is one that has the voices.
func fliteVersion(ctx context.Context, program string) (string, error) {
	list, err := exec.CommandContext(ctx, program, "-lv").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%w: install flite (Debian: apt-get install flite)", err)
	}
	if err != nil {
		return "", fmt.Errorf("asking %s for its voices: %w", program, err)
	}
	has := strings.Fields(string(list))
	for _, v := range fliteVoices() {
		if !slices.Contains(has, v) {
			return "", fmt.Errorf("%s has no voice %s", program, v)
		}
	}
	// It prints its version and ends with a status that is not zero.
	said, _ := exec.CommandContext(ctx, program, "--version").CombinedOutput()
	for line := range strings.Lines(string(said)) {
		if _, version, ok := strings.Cut(line, "version: "); ok {
			return strings.TrimSpace(version), nil
		}
	}
	return "", fmt.Errorf("%s does not tell its version", program)
}

// fliteArgs has a voice say a take: its pitch of 20 to 80 from 80 to 230 Hz, its
// speed in words a minute against the usual 165.
func fliteArgs(voice string, t Take) []string {
	return []string{"-voice", voice, "--setf", fmt.Sprintf("duration_stretch=%.3f", 165/float64(t.Speed)),
		"--setf", fmt.Sprintf("int_f0_target_mean=%.1f", 80+float64(t.Pitch-20)*2.5), "-t", t.Text, "-o", "/dev/stdout"}
}
