const id = name => document.getElementById(name)
const loss = v => v === undefined ? '' : v.toFixed(4)
async function refresh() {
  const answer = await fetch('status.json')
  if (!answer.ok) throw new Error(await answer.text())
  const s = await answer.json()
  id('study').textContent = s.study
  id('question').textContent = s.question || ''
  let state = `${s.state}: ${s.trials} of at most ${s.planned} trials, ${s.tokens} tokens, ${s.rows} rows`
  if (s.now) state += `; ${s.now.event} ${s.now.arm || ''} seed ${s.now.seed || ''} ${s.now.tokens || 0} of ${s.now.rung || 0} tokens, loss ${loss(s.now.loss)}`
  if (s.exhausted) state += `; budget: ${s.exhausted}`
  id('state').textContent = state
  id('arms').replaceChildren(...s.arms.map(a => {
    const row = document.createElement('tr')
    const note = a.diverged ? 'diverged' : a.dropped ? `dropped at ${a.dropped}` : a.same ? `same as ${a.same}` : ''
    for (const text of [a.arm, a.parameters || '', a.tokens || '', loss(a.choose), loss(a.judge), note]) row.insertCell().textContent = text
    return row
  }))
}
async function loop() {
  try { await refresh() } catch (e) { id('state').textContent = e.message }
  setTimeout(loop, 2000)
}
loop()
