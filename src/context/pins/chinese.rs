//! Which Chinese sentences bind: they forbid, require or limit something.

use std::sync::LazyLock;

use regex::Regex;

use super::any;
use crate::protocol::speech::{self, expression, led_by};

/// Verbs of what an agent could do to a project.
const ACT: &str = "(?:修改|改动|更改|变更|改变|改|动|碰|编辑|删除|删掉|删|移除|使用|采用|用|引入|依赖|安装|装|添加|新增|增加|加|创建|新建|破坏|影响|超过|超出|低于|高于|少于|多于|大于|小于|提交|推送|推|合并|发布|部署|上传|下载|发送|泄露|泄漏|暴露|出现|写|直接|随意|擅自|随便|自行|私自|手动|联网|访问|连接外|读取|打印|记录|输出|升级|降级|覆盖|重命名|重构|重写|格式化|硬编码|写死|跳过|绕过|关闭|禁用|存储|保存|明文|包含|含有|带有|为空|重复|依靠|跨|越过|执行|运行|跑|调用|回滚|强制|强推|互相|相互|同时|比|多|少|与|跟|和|切换|泄|外传|合并|混|嵌套|忽略|吞|硬|拼接|阻塞|丢失|降低|放宽|有任何|有新|处理|只|在)";

/// The sentence forbids, requires or limits something.
pub(super) fn binds(sentence: &str) -> bool {
    if !sentence.chars().any(|char| ('\u{4e00}'..='\u{9fff}').contains(&char)) {
        return false;
    }
    // "In any case" holds the word for "how".
    let sentence = IN_ANY_CASE.replace_all(sentence, "一定");
    let sentence = sentence.as_ref();
    if ASKS.is_match(sentence) {
        return false;
    }
    let is_feature = FEATURE.is_match(sentence);
    // What is made is itself a rule: what it demands is no demand on who makes it.
    let makes_a_rule = is_feature && RULE.is_match(sentence);
    if SENTENCE.is_match(sentence) {
        return true;
    }
    for clause in clauses(sentence) {
        if CONDITION.is_match(clause) {
            continue;
        }
        if REPORTED.is_match(clause) {
            return false;
        }
        // Taken away first: what only contains the words, and what takes a demand back.
        let clause = HARMLESS.replace_all(clause, "…");
        let directs = !makes_a_rule && DIRECTS.iter().any(|form| form.is_match(&clause));
        let states = !is_feature && STATES.iter().any(|form| form.is_match(&clause));
        if directs || states {
            return true;
        }
    }
    false
}

/// Parts of a sentence without the words that only lead to one.
fn clauses(sentence: &str) -> impl Iterator<Item = &str> {
    static LEAD: LazyLock<Regex> = LazyLock::new(|| {
        expression(
            r"^(?:(?:请你?|麻烦|拜托|现在|好的?|那么?|另外|还有|此外|而且|并且|同时|注意|重要|特别注意|提醒一下|首先|然后|最后|但是?|不过|所以|因此|只是|可是|其次|这次|本次|以后|今后|从现在开始|总之|我说了|你|您|我们|咱们|也|还|就|都)[\s:：!！]*)+",
        )
    });
    speech::clauses(sentence).filter_map(|clause| led_by(&LEAD, clause))
}

static ASKS: LazyLock<Regex> = LazyLock::new(|| {
    any(&[
        r"[?？]$",
        r"(?:吗|呢|么)[。.!！]?$",
        r"为什么",
        r"为何",
        r"为啥",
        r"怎么(?:做|办|样|改|用|会|才|回事|写|避免|实现|保证|确保)?",
        r"如何",
        r"能不能",
        r"能否",
        r"可不可以",
        r"可否",
        r"要不要",
        r"是不是",
        r"是否(?:必须|需要|应该|可以|允许|要|能)",
        r"该不该",
        r"有没有办法",
        r"什么时候",
        r"什么情况",
        r"什么意思",
        r"哪些",
        r"哪个",
        r"哪里",
        r"谁",
    ])
});
static IN_ANY_CASE: LazyLock<Regex> =
    LazyLock::new(|| expression("无论如何|不管怎么?样|不论怎样|任何情况下|任何时候"));
static CONDITION: LazyLock<Regex> = LazyLock::new(|| {
    expression("^(?:如果|要是|假如|假设|倘若|若是?|一旦|除非|因为|由于|既然|虽然|尽管)")
});
/// A task that makes something which itself forbids or requires.
static FEATURE: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        "^(?:请|帮我|麻烦|再|给我|给\\S{1,8}|在\\S{1,12}(?:里|中|上))*(?:加|添加|增加|新增|实现|写|做|创建|开发|设计|生成|支持|列出|列|找出|找|显示|统计|查询|解释|说明|介绍|分析|查)",
    )
});
static RULE: LazyLock<Regex> =
    LazyLock::new(|| expression("^[^，,。]*(?:规则|校验|限制|检查|验证|约束)"));
static REPORTED: LazyLock<Regex> = LazyLock::new(|| {
    any(&[
        "(?:报错|提示|日志|文档|错误信息|错误|编译器|控制台|系统|注释|说明|终端|页面|接口|它|他|她|对方|老师|同事|客户|用户|测试人员)(?:里|中|上)?(?:都|总|一直|会|还)?(?:说|写着?|显示|提示|告诉|要求|提到|报|弹出)",
        "^(?:报错|提示|显示)(?:提示|说|是|为|显示|必须|不|$)",
        "写着",
        "显示$",
        "提示$",
    ])
});
/// Two parts that make one demand.
static SENTENCE: LazyLock<Regex> = LazyLock::new(|| {
    any(&[
        "(?:不|没有)(?:修改|改动|改|动|破坏|影响|引入|新增|增加|添加|加|使用|用|依赖|降低|改变|升级).{1,14}的(?:前提|情况|条件|基础)下",
        "用.{1,20}(?:，|,)?(?:而不是|而非|不是用|替代|代替)",
        "(?:之前|以前|前)[，,]?(?:请|先|要|必须|都|得|一定)*(?:问|征求|告诉|通知|告知|请示)(?:一下|过)?我",
        "^(?:禁区|红线|限制|约束|约束条件|硬性要求|边界|禁止事项)(?:条件)?[:：].",
    ])
});
/// Words that contain those of a prohibition or a requirement, and demands that are taken back.
static HARMLESS: LazyLock<Regex> = LazyLock::new(|| {
    any(&[
        "要不要",
        "不要紧",
        "不要的",
        "不要了",
        "不要(?:担心|着急|紧张|客气|误会|介意|管它|有压力|见怪)",
        "[特区分类级识辨个性判鉴差告派]别",
        "别(?:的|人|名|处|称|扭|担心|着急|急|客气|管|在意|怕|介意|误会|样|提了|说了|墅|致|开生面|忘记我)",
        "不得不",
        "不得已",
        "舍不得",
        "巴不得",
        "不得而知",
        "不(?:一定要?|必须?|用|需要|须|需|要求)",
        "没(?:有)?必要",
        "没必要",
        "无需",
        "无须",
        "用不着",
        "不至于",
        "不仅",
        "不只",
        "不能不",
        "必须的",
        "要求不高",
        "仅仅",
        "只是",
        "只会",
        "只有",
        "只好",
        "只剩",
        "只见",
        "不限于",
        "不只是",
        "以避免",
        "为了避免",
        "来避免",
        "从而避免",
        "可以避免",
        "能避免",
        "避免了",
        "确保了",
        "保证了",
        "被禁止",
        "禁止了",
        "不允许(?:登录|进入|打开|启动)",
        "禁止(?:的|词|列表|名单|访问页|登录|注册|评论)",
        "必须的",
        "每次(?:都)?(?:必须|要|得).{0,12}才",
        "必须.{1,14}才(?:能|行|可以|会)",
    ])
});

/// Forms in which the user directs the reader.
static DIRECTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let not = "(?:不要|请勿|切勿|切忌|勿|别|不许|不准|绝不|决不|绝对不|绝不能|决不能|万万不|千万不|尽量不|尽量别|尽量少|杜绝|严禁|千万别|最好不要|最好别|暂不|先不|一律不|概不|想都别想)";
    [
        format!("^(?:[^，。]{{0,24}}){not}[^了。]"),
        format!("{not}{ACT}"),
        "^(?:绝对|坚决|严格|一律|全部|统统)?禁止.".to_owned(),
        "^(?:务必|一定要|一定得|必须|须|切记|记得|记住|牢记|别忘|不要忘|别忘记|一律|确保|保证|要确保|要保证|需要?确保)[^。]".to_owned(),
        "^(?:我们)?[^我，。]{0,22}(?:只准|只许|只可以?|仅能|仅可|仅限|只允许|仅允许|只限)[^。]".to_owned(),
        "^(?:我们)?[^我现目，。]{0,22}只能[^看重等靠手听眼先]".to_owned(),
        "^(?:只|仅|就)(?:修改|改动|改|动|编辑|处理|使用|重构|优化|修复|调整)[^了]".to_owned(),
        "(?:仅限|限于|限制在|控制在|局限在|局限于|不超过|不超出)".to_owned(),
        "^(?:请|要|务必|必须|需要?|继续|一定)?(?:保持|维持|保留).{0,24}(?:不变|原样|兼容|一致|不动|稳定|现状|完整|风格|干净|简洁|原有|现有|原来|最小)".to_owned(),
        "^.{0,16}(?:保持|维持)(?:不变|原样|一致|兼容|现状|不动)".to_owned(),
        "(?:^|[也都要])(?:先|必须先|要先|得先|一定先|一定要先)(?:问|征求|请示|告诉|通知|跟|和|经过|征得)(?:一下|过|得)?我".to_owned(),
        "未经(?:我|允许|许可|同意|批准|授权|确认)|没(?:有)?(?:经过)?我的?(?:同意|允许|批准|许可|确认)|(?:等|经|得到|征得|经过)我.{0,6}(?:同意|确认|批准|允许|许可|点头|审核|看过).{0,4}(?:后|再|才|之前|前)".to_owned(),
        "^(?:请|要|必须|严格|务必|一定要?)*(?:遵守|遵循|遵照|沿用|严格按|按照?.{1,16}(?:规范|风格|标准|约定|格式|规则))".to_owned(),
        "^(?:尽量|最好)?避免.".to_owned(),
        "^.{0,12}(?:始终|永远|一直|总是|一律|统一|全部|都要|全程)(?:都)?(?:要|得)?(?:用|使用|采用|先|保持|以|按|走|写|放|遵)".to_owned(),
        "(?:除了|除).{1,24}(?:以外|之外|外).{0,12}(?:不要|别|不许|不准|不能|不得|勿|不动|不改)".to_owned(),
        "^(?:要求|硬性要求|底线|前提|原则)(?:是|为|$).?".to_owned(),
        "^(?:需要|要|得)(?:兼容|保持|遵守|遵循|符合|向后兼容|向下兼容)".to_owned(),
        "^一定.{0,6}(?:不|别|都要|必须)".to_owned(),
        format!("^(?:你|您|我们)?(?:不得|不能|不可以|不可|不允许|不应该?|不该|不准){ACT}"),
        "^我(?:不希望|不允许|不接受|要求|禁止|希望你(?:不|只|始终|一直|务必)|不想(?:你|看到|有|要任何|再))".to_owned(),
        "(?:是|属于)(?:禁区|红线|只读的?)$|^别动.|碰不得|动不得|改不得".to_owned(),
    ]
    .iter()
    .map(|text| expression(text))
    .collect()
});

/// Forms in which a requirement is stated of something.
static STATES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        format!("^[^我]{{0,24}}(?:不能|不可以|不应该?|不该|不可|不准|不许){ACT}"),
        "不得.|不允许.".to_owned(),
        "^(?:我们|[^我]).{0,23}(?:必须|务必|一定要|一定得|须|应当)[^。了]".to_owned(),
        "^.{1,24}(?:禁止|严禁)[^。]".to_owned(),
        "^(?:每个|每次|每一|所有|任何|全部|一切|各个|各|凡是).{0,20}(?:都)?(?:要|得|需要|需|应|应该)(?:写|有|加|带|用|通过|经过|使用|包含|保持|做|先|是|遵|符合|经|走|更新|补|校验|检查|加密|处理|记录|兼容|支持)".to_owned(),
        "^.{1,24}(?:需要|要|得|需)(?:保持|兼容|遵守|遵循|符合|经过我|先经|向后兼容|向下兼容)".to_owned(),
        "^(?:提交|推送|发布|合并|部署|修改|改动|改|运行|删除|升级|安装).{0,12}(?:之前|以前|前)(?:都|要|必须|一定|先|得|需要?)+".to_owned(),
    ]
    .iter()
    .map(|text| expression(text))
    .collect()
});
