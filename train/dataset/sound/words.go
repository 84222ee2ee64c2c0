package sound

import "strings"

// digitWords returns the digits in words.
func digitWords() []string {
	return []string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}
}

// Vocabulary returns the spoken words: short, plain, and without homophones.
func Vocabulary() []string {
	return strings.Fields(`
apple arm baby bag ball banana bed bee bell bird boat book bottle box bread bridge brother butter button cake
camel candle car cat chair cheese child circle city cloud coffee cold cow cup dance day desk doctor dog door
dream duck egg elephant engine eye family farm father feather finger fire fish flower forest garden glass gold
green hammer hand hat heart horse house island jacket juice king kitchen lamp leaf lemon letter lion market
milk money monkey moon mother mountain mouse music needle night orange paper pencil picture pilot planet
queen rabbit river rocket sugar table window winter`)
}

// Voices returns the variants of espeak-ng of a split. No variant is in both.
func Voices(split Split) []string {
	if split == Held {
		return []string{"Denis", "Henrique", "Marco", "f3", "f5", "grandma", "grandpa", "m4", "m6", "michel", "pedro", "robert"}
	}
	return []string{
		"Alex", "Alicia", "Andrea", "Annie", "Diogo", "Gene", "Hugo", "Jacky", "Lee", "Mario", "Michael", "Mike", "Nguyen",
		"adam", "anika", "antonio", "aunty", "belinda", "benjamin", "boris", "caleb", "david", "ed", "edward", "f1", "f2", "f4",
		"gustave", "iven", "john", "kaukovalta", "klatt", "klatt3", "klatt5", "linda", "m1", "m2", "m3", "m5", "m7", "m8",
		"marcelo", "max", "miguel", "norbert", "pablo", "paul", "quincy", "rob", "sandro", "shelby", "steph", "travis",
		"victor", "whisper", "zac",
	}
}

// accents returns the English accents of espeak-ng.
func accents() []string {
	return []string{"en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-029", "en-us-nyc"}
}
