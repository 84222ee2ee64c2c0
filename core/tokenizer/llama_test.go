package tokenizer

import (
	"bufio"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/testfiles"
)

// oracle is libllama behind testdata/tokenize.c.
type oracle struct {
	in  io.Writer
	out *bufio.Reader
}

// startOracle compiles the program and starts it on a vocabulary.
func startOracle(t *testing.T, program, libs, path string) *oracle {
	t.Helper()
	cmd := exec.Command(program, libs, path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return &oracle{in, bufio.NewReader(out)}
}

func buildOracle(t *testing.T) (program, libs string) {
	t.Helper()
	libs = testfiles.Native(t, "lib", "bins", "linux-x64")
	src := testfiles.Native(t, "llama.cpp")
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("skipped: no C compiler")
	}
	program = filepath.Join(t.TempDir(), "tokenize")
	out, err := exec.Command(cc, "-O1", "-o", program, filepath.Join("testdata", "tokenize.c"),
		"-I"+filepath.Join(src, "include"), "-I"+filepath.Join(src, "ggml", "include"),
		filepath.Join(libs, "libllama.v0.5.0.so"), filepath.Join(libs, "libggml.v0.5.0.so"),
		filepath.Join(libs, "libggml-base.so"), "-Wl,-rpath,"+libs).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program, libs
}

func (o *oracle) encode(t *testing.T, text string, opt Options) []int32 {
	t.Helper()
	req := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
	for _, flag := range []bool{opt.Add, opt.Special} {
		if flag {
			req = append(req, 1)
		} else {
			req = append(req, 0)
		}
	}
	if _, err := o.in.Write(append(req, text...)); err != nil {
		t.Fatal(err)
	}
	var n uint32
	if err := binary.Read(o.out, binary.LittleEndian, &n); err != nil {
		t.Fatal(err)
	}
	ids := make([]int32, n)
	if err := binary.Read(o.out, binary.LittleEndian, ids); err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestAgainstLibllama compares ids with libllama's on real text in many
// scripts, on random characters and on text full of special tokens.
func TestAgainstLibllama(t *testing.T) {
	program, libs := buildOracle(t)
	models := testfiles.Native(t, "llama.cpp", "models")
	files := []string{filepath.Join(testfiles.Native(t, "models"), "SmolLM2-135M-Instruct.Q4_1.gguf")}
	for _, name := range []string{
		"llama-spm", "phi-3", "baichuan", "llama-bpe", "gpt-2", "gpt-neox", "qwen2", "qwen35", "command-r",
		"starcoder", "refact", "falcon", "mpt", "deepseek-llm", "deepseek-coder", "aquila", "gemma-4",
	} {
		files = append(files, filepath.Join(models, "ggml-vocab-"+name+".gguf"))
	}
	texts := realTexts(t)
	for _, path := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "ggml-vocab-"), ".gguf")
		t.Run(name, func(t *testing.T) {
			tok := open(t, path)
			o := startOracle(t, program, libs, path)
			wrong, bytes, markup := 0, 0, 0
			id := tok.ID("</s>")
			ordinary := id != None && tok.Type(id) == Normal
			check := func(text string, opt Options) {
				// llama.cpp treats every </s> as special, even if its file
				// declares it as text.
				if ordinary && opt.Special && strings.Contains(text, "</s>") {
					markup++
					return
				}
				bytes += len(text)
				want, got := o.encode(t, text, opt), tok.Encode(text, opt)
				if slices.Equal(want, got) {
					return
				}
				if wrong++; wrong <= 5 {
					i := 0
					for i < len(want) && i < len(got) && want[i] == got[i] {
						i++
					}
					t.Errorf("%+v %.200q: from token %d\nwant %v\ngot  %v", opt, text, i, tail(want, i), tail(got, i))
				}
			}
			for _, text := range texts {
				check(text, Options{})
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for range 1000 {
				check(randomText(rng), Options{Add: true})
			}
			for range 1000 {
				check(withSpecials(rng, tok), Options{Add: true, Special: true})
			}
			t.Logf("%d bytes compared, %d texts differ, %d with </s> as text skipped", bytes, wrong, markup)
		})
	}
}

func tail(ids []int32, from int) []int32 {
	return ids[from:min(len(ids), from+12)]
}

// realTexts returns the declaration of human rights in 14 languages, stories
// and source code.
func realTexts(t *testing.T) []string {
	t.Helper()
	var texts []string
	files, err := filepath.Glob(filepath.Join(testfiles.Shared(t, "udhr"), "*.xml"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, testfiles.Native(t, "llama.cpp", "src", "unicode.cpp"))
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(b))
	}
	b, err := os.ReadFile(testfiles.Shared(t, "tinystories", "tinystories_sample.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return append(texts, strings.Split(string(b[:60_000]), "<|endoftext|>")...)
}

// randomText mixes characters of every kind, mostly white space.
func randomText(rng *rand.Rand) string {
	pools := [][]rune{
		[]rune("   \t\n\r\n  \u00a0\u2003\u3000\u0085\u200b\u200d"),
		[]rune("abcXYZ'''sStTmMdDllLLreREveVE"),
		[]rune("0123456789½²٣४Ⅷ"),
		[]rune(".,;:!?-_/\\|@#$%^&*()[]{}<>=+~`\"'’“”…—。、，"),
		[]rune("éÄñßøþǅʰªабвΩάşİıſK"),
		[]rune("你好世界日本語カタカナひらがな한국어"),
		[]rune("नमस्ते สวัสดี שלום مرحبا ﷺ"),
		[]rune("😀🚀👩‍👩‍👧🇿🇦é́̂"),
		{0, 1, 0x7f, 0xad, 0xfeff, 0xfffd, 0xe000, 0x10ffff},
	}
	var b strings.Builder
	for range 1 + rng.IntN(40) {
		pool := pools[rng.IntN(len(pools))]
		for range 1 + rng.IntN(4) {
			b.WriteRune(pool[rng.IntN(len(pool))])
		}
	}
	return b.String()
}

// withSpecials strews special tokens into text.
func withSpecials(rng *rand.Rand, tok *Tokenizer) string {
	var special []string
	for id := range tok.Size() {
		if typ := tok.Type(int32(id)); typ == Control || typ == UserDefined {
			special = append(special, tok.words.text(int32(id)))
		}
		if len(special) > 300 {
			break
		}
	}
	words := []string{"Hello", " world", " ", "  ", "\n", "assistant", "<", ">", "|", "1234", "<s>", "</s>"}
	var b strings.Builder
	for range 1 + rng.IntN(20) {
		if rng.IntN(3) == 0 && len(special) > 0 {
			b.WriteString(special[rng.IntN(len(special))])
		} else {
			b.WriteString(words[rng.IntN(len(words))])
		}
	}
	return b.String()
}
