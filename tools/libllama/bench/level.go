package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/core/cpu"
)

// runLevels runs this program once per level, with its other flags.
func runLevels(levels []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, level := range levels {
		c := exec.Command(self, append(os.Args[1:], "-levels", "")...)
		c.Env = append(os.Environ(), "MM_CPU="+level)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("level %s: %w", level, err)
		}
		fmt.Println()
	}
	return nil
}

// variants are the builds of ggml's kernels for exactly the instructions of a level.
// Without one the library chooses.
var variants = map[cpu.Level]string{
	cpu.AVX2:    "libggml-cpu-haswell.so",
	cpu.AVXVNNI: "libggml-cpu-alderlake.so",
	cpu.AVX512:  "libggml-cpu-skylakex.so",
	cpu.AMX:     "libggml-cpu-sapphirerapids.so",
}

// librariesFor returns a new folder of links to the libraries in dir, with only the kernels
// of the level, and the name of those.
func librariesFor(level cpu.Level, dir string) (folder, variant string, err error) {
	found, err := filepath.Glob(filepath.Join(dir, "*.so*"))
	if err != nil {
		return "", "", err
	}
	if folder, err = os.MkdirTemp("", "libggml"); err != nil {
		return "", "", err
	}
	wanted, variant := variants[level], "chosen for this processor"
	for _, path := range found {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "libggml-cpu-") && wanted != "" {
			if name != wanted {
				continue
			}
			variant = name
		}
		real, err := filepath.Abs(path)
		if err != nil {
			return "", "", err
		}
		if err := os.Symlink(real, filepath.Join(folder, name)); err != nil {
			return "", "", err
		}
	}
	return folder, variant, nil
}

// load returns the load average of the last minute.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(b), " ")
	return first
}
