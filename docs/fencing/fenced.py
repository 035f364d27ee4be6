import os, subprocess

def leads():
    return subprocess.run(["leaderrun", "check"]).returncode == 0

def fenced(db, sql="SELECT 1", *values):  # psycopg2; in psycopg 3 write db.transaction()
    with db, db.cursor() as cursor:  # one transaction
        cursor.execute("SELECT fence(%s, %s)", (os.environ["LEADERRUN_KEY"], int(os.environ["LEADERRUN_TOKEN"])))
        cursor.execute(sql, values)
