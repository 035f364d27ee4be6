const leads = () => require("child_process").spawnSync("leaderrun", ["check"]).status === 0;

async function fenced(sql = "SELECT 1", ...values) { // mysql, mysql2; with pg: SELECT fence($1, $2)
  const db = require("mysql").createConnection(process.env.DATABASE_URL);
  const query = require("util").promisify(db.query).bind(db);
  try {
    await query("START TRANSACTION");
    await query("CALL fence(?, ?)", [process.env.LEADERRUN_KEY, process.env.LEADERRUN_TOKEN]);
    await query(sql, values);
    await query("COMMIT");
  } finally {
    db.destroy(); // what is not committed is rolled back
  }
}

module.exports = { leads, fenced };
