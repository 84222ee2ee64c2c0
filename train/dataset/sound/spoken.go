package sound

import _ "embed"

// spoken is the first "seven" of the held-out voice f3 in speech made by
// Synthesize with espeak-ng 1.51 (en-029+f3, 157 words per minute), with 0.15 s
// of silence around it. The output of espeak-ng is not under espeak-ng's
// license.
//
//go:embed spoken.wav
var spoken []byte

// Spoken returns a WAV file of one digit by a held-out voice, and the digit: an
// input for tests without a speech pack.
func Spoken() (wav []byte, digit string) { return append([]byte(nil), spoken...), "7" }
