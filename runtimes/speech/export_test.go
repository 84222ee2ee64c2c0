package speech

// Limits, for tests.
const (
	TextLimit        = maxText
	SecondsLimit     = maxSeconds
	SymbolsFileLimit = maxSymbolsFile
	SymbolsLimit     = maxSymbols
	SymbolLimit      = maxSymbol
	SymbolIDsLimit   = maxSymbolIDs
	VoicesFileLimit  = maxVoicesFile
	PhonemesLimit    = maxPhonemes
	ErrorTextLimit   = maxErrorText
)

// Kokoro converts phonemes of espeak-ng.
func Kokoro(phonemes, language string) string { return kokoro(phonemes, language) }

// ParseSymbols reads a file of symbols and splits a text.
func ParseSymbols(data []byte, text string) (list []string, dropped string, err error) {
	s, err := parseSymbols(data)
	if err != nil {
		return nil, "", err
	}
	list, dropped = s.split(text)
	return list, dropped, nil
}

// ReadVoices returns the number of vectors of each voice of a file.
func ReadVoices(file, name string, size int) (map[string]int, error) {
	found, err := readVoices(file, name, size)
	out := map[string]int{}
	for voice, v := range found {
		if err == nil {
			v.row(0)
			v.row(1 << 20)
			out[voice] = len(v.rows) / v.size
		}
	}
	return out, err
}

// Spans returns the words and the marks of a sentence.
func Spans(sentence string) (out []string) {
	for _, s := range spans(sentence) {
		out = append(out, s.text)
	}
	return out
}

// Pieces divides symbols.
func Pieces(list []string, limit int) [][]string { return pieces(list, limit) }
