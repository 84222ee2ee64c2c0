package demo

import (
	"os"
	"path/filepath"
)

// SetHome points mm at the home of a demo, with an empty password of its key, which the
// environment names, and without the logins of the user. The result undoes it.
func SetHome(dir, password string) (restore func()) {
	var undo []func()
	for name, value := range map[string]string{"MM_HOME": dir, password: "", "DOCKER_CONFIG": filepath.Join(dir, "docker")} {
		if old, ok := os.LookupEnv(name); ok {
			undo = append(undo, func() { os.Setenv(name, old) })
		} else {
			undo = append(undo, func() { os.Unsetenv(name) })
		}
		os.Setenv(name, value)
	}
	return func() {
		for _, f := range undo {
			f()
		}
	}
}
