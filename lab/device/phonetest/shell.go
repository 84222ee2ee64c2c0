package phonetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// word is a word of a command. An operator is not quoted.
type word struct {
	text     string
	operator bool
}

// split parses a command line with POSIX quotes and the operators && ; > >>. Anything else
// is an error.
func split(line string) ([]word, error) {
	var out []word
	var b strings.Builder
	open := false
	end := func() {
		if open {
			out = append(out, word{b.String(), false})
		}
		b.Reset()
		open = false
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n':
			end()
		case c == '\'' || c == '"':
			j := strings.IndexByte(line[i+1:], c)
			if j < 0 {
				return nil, fmt.Errorf("unclosed %c", c)
			}
			if c == '"' && strings.ContainsAny(line[i+1:i+1+j], "$`\\") {
				return nil, fmt.Errorf("expansions are not emulated")
			}
			b.WriteString(line[i+1 : i+1+j])
			open = true
			i += j + 1
		case c == '\\' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
			open = true
		case strings.HasPrefix(line[i:], "&&"), strings.HasPrefix(line[i:], ">>"):
			end()
			out = append(out, word{line[i : i+2], true})
			i++
		case c == ';' || c == '>':
			end()
			out = append(out, word{string(c), true})
		case strings.ContainsRune("|&<$`()", rune(c)):
			return nil, fmt.Errorf("%c is not emulated", c)
		default:
			b.WriteByte(c)
			open = true
		}
	}
	end()
	return out, nil
}

// session is a shell session.
type session struct {
	p      *Phone
	dir    string
	stdout io.Writer
	stderr io.Writer
}

// shell runs a command line and returns its exit code.
func (p *Phone) shell(ctx context.Context, line string, stdout, stderr io.Writer) int {
	words, err := split(line)
	if err != nil {
		fmt.Fprintf(stderr, "sh: %v\n", err)
		return 2
	}
	s := &session{p, "/", stdout, stderr}
	code, run := 0, true
	for len(words) > 0 {
		n := slices.IndexFunc(words, func(w word) bool { return w.operator && (w.text == "&&" || w.text == ";") })
		part, op := words, ""
		if n >= 0 {
			part, op, words = words[:n], words[n].text, words[n+1:]
		} else {
			words = nil
		}
		if run {
			code = s.command(ctx, part)
		}
		run = op != "&&" || code == 0
	}
	return code
}

// command runs a command with its redirections and assignments.
func (s *session) command(ctx context.Context, words []word) int {
	var args []string
	stdout := s.stdout
	env := map[string]string{}
	for i := 0; i < len(words); i++ {
		w := words[i]
		if !w.operator {
			if k, v, ok := strings.Cut(w.text, "="); ok && len(args) == 0 {
				env[k] = v
				continue
			}
			args = append(args, w.text)
			continue
		}
		if i+1 == len(words) {
			fmt.Fprintln(s.stderr, "sh: syntax error")
			return 2
		}
		i++
		var buf bytes.Buffer
		stdout = &buf
		name, add := s.p.local(s.dir, words[i].text), w.text == ">>"
		defer func() {
			if err := s.redirect(name, buf.Bytes(), add); err != nil {
				fmt.Fprintf(s.stderr, "sh: can't create %s: %s\n", words[i].text, reason(err))
			}
		}()
		if err := s.redirect(name, nil, add); err != nil {
			fmt.Fprintf(s.stderr, "sh: can't create %s: %s\n", words[i].text, reason(err))
			return 1
		}
	}
	if len(args) == 0 {
		return 0
	}
	inner := &session{s.p, s.dir, stdout, s.stderr}
	code := inner.run(ctx, args, env)
	s.dir = inner.dir
	if buf, ok := stdout.(*bytes.Buffer); ok && s.p.full(int64(buf.Len())) {
		fmt.Fprintf(s.stderr, "%s: write: No space left on device\n", args[0])
		return 1
	}
	return code
}

// full reports whether n more bytes do not fit.
func (p *Phone) full(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := p.Free
	if p.faults[NoSpaceLeft] {
		limit = 128 << 10
	}
	return p.used+n > limit
}

func (s *session) redirect(name string, data []byte, add bool) error {
	f, err := s.p.create(name, add)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.p.write(f, data)
}

// run runs a program of the system or a pushed one.
func (s *session) run(ctx context.Context, args []string, env map[string]string) int {
	switch args[0] {
	case "cd":
		if len(args) != 2 {
			return 2
		}
		s.dir = path.Join("/", s.p.local(s.dir, args[1]))
		if info, err := s.p.stat(s.p.local("/", s.dir)); err != nil || !info.IsDir() {
			fmt.Fprintf(s.stderr, "sh: cd: %s: No such file or directory\n", args[1])
			return 2
		}
		return 0
	case "echo":
		fmt.Fprintln(s.stdout, strings.Join(args[1:], " "))
		return 0
	case "timeout":
		return s.timeout(ctx, args[1:], env)
	case "getprop":
		for _, k := range slices.Sorted(maps.Keys(s.p.Props)) {
			fmt.Fprintf(s.stdout, "[%s]: [%s]\n", k, s.p.Props[k])
		}
		return 0
	case "uname":
		fmt.Fprintln(s.stdout, s.p.Machine)
		return 0
	case "dumpsys":
		return s.dumpsys(args[1:])
	case "df":
		fmt.Fprintf(s.stdout, "Filesystem     1K-blocks    Used Available Use%% Mounted on\n/dev/block/dm-8 %d %d %d 50%% /data\n", s.p.Free>>9, s.p.Free>>10, s.p.Free>>10)
		return 0
	case "grep":
		return s.grep()
	}
	if strings.Contains(args[0], "/") {
		return s.program(ctx, args, env)
	}
	return s.coreutil(args)
}

func (s *session) timeout(ctx context.Context, args []string, env map[string]string) int {
	if len(args) > 2 && args[0] == "-k" {
		args = args[2:]
	}
	if len(args) < 2 {
		return 125
	}
	n, err := strconv.ParseFloat(args[0], 64)
	if err != nil {
		return 125
	}
	limited, cancel := context.WithTimeout(ctx, time.Duration(n*float64(time.Second)))
	defer cancel()
	code := s.run(limited, args[1:], env)
	if limited.Err() != nil {
		return 124
	}
	return code
}

func (s *session) dumpsys(args []string) int {
	if len(args) != 1 || args[0] != "battery" {
		fmt.Fprintln(s.stderr, "Can't find service: "+strings.Join(args, " "))
		return 20
	}
	b := s.p.Battery
	fmt.Fprintf(s.stdout, "Current Battery Service state:\n  AC powered: %v\n  USB powered: false\n  Wireless powered: false\n  Max charging current: 500000\n  status: 2\n  health: 2\n  present: true\n  level: %d\n  scale: 100\n  voltage: 4100\n  temperature: %d\n  technology: Li-ion\n", b.Powered, b.Level, b.Tenths)
	return 0
}

// grep emulates the grep of all thermal zones.
func (s *session) grep() int {
	zones := slices.Sorted(maps.Keys(s.p.Thermal))
	for i, z := range zones {
		fmt.Fprintf(s.stdout, "/sys/class/thermal/thermal_zone%d/type:%s\n", i, z)
	}
	for i, z := range zones {
		fmt.Fprintf(s.stdout, "/sys/class/thermal/thermal_zone%d/temp:%d\n", i, s.p.Thermal[z])
	}
	return 0
}

// coreutil emulates the programs that handle files.
func (s *session) coreutil(args []string) int {
	fail := func(name string, err error) int {
		fmt.Fprintf(s.stderr, "%s: %s: %s\n", args[0], name, reason(err))
		return 1
	}
	files := slices.DeleteFunc(slices.Clone(args[1:]), func(a string) bool { return strings.HasPrefix(a, "-") })
	switch args[0] {
	case "mkdir":
		for _, name := range files {
			if err := s.p.mkdir(s.p.local(s.dir, name)); err != nil {
				return fail(name, err)
			}
		}
	case "ls":
		for _, name := range s.p.names(s.p.local(s.dir, files[0])) {
			fmt.Fprintln(s.stdout, name)
		}
	case "rmdir":
		return s.rmdir(files[0], fail)
	case "rm":
		for _, name := range files {
			if err := s.p.remove(s.p.local(s.dir, name)); err != nil {
				return fail(name, err)
			}
		}
	case "mv", "ln":
		if len(files) != 2 {
			return 2
		}
		return s.name(args[0], files[0], files[1], fail)
	case "chmod":
		for _, name := range files[1:] {
			local := s.p.local(s.dir, name)
			if _, err := s.p.stat(local); err != nil {
				return fail(name, err)
			}
			s.p.mu.Lock()
			s.p.exec[local] = true
			s.p.mu.Unlock()
		}
	case "cat", "sha256sum":
		for _, name := range files {
			data, err := s.p.ReadFile(path.Join("/", s.p.local(s.dir, name)))
			if name == "/proc/meminfo" {
				data, err = []byte("MemTotal:       16000000 kB\nMemFree:         2000000 kB\nMemAvailable:    9000000 kB\n"), nil
			}
			if err != nil {
				return fail(name, err)
			}
			if args[0] == "cat" {
				s.stdout.Write(data)
				continue
			}
			fmt.Fprintf(s.stdout, "%x  %s\n", sha256.Sum256(data), name)
		}
	case "find":
		for _, name := range s.p.List(path.Join(s.dir, files[0])) {
			fmt.Fprintln(s.stdout, strings.TrimPrefix(name, path.Join("/", s.p.local("/", s.dir))+"/"))
		}
	default:
		fmt.Fprintf(s.stderr, "sh: %s: inaccessible or not found\n", args[0])
		return 127
	}
	return 0
}

// rmdir removes an empty folder.
func (s *session) rmdir(name string, fail func(string, error) int) int {
	local := s.p.local(s.dir, name)
	if len(s.p.names(local)) > 0 {
		return fail(name, errNotEmpty)
	}
	if err := s.p.remove(local); err != nil {
		return fail(name, err)
	}
	return 0
}

// name emulates mv and ln -s.
func (s *session) name(verb, from, to string, fail func(string, error) int) int {
	local := s.p.local(s.dir, to)
	if err := s.p.writable(local); err != nil {
		return fail(to, err)
	}
	if verb == "mv" {
		if err := s.p.files.Rename(s.p.local(s.dir, from), local); err != nil {
			return fail(from, err)
		}
		return 0
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.p.links[local] = from
	return 0
}
